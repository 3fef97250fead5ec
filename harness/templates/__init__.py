"""What `harness new` writes: working plug-ins to start from, with NAME in place of the name."""
