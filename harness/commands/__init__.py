"""One file a verb: parse, call, print. `cli` joins them."""
