"""One file each: an optimisation that can be toggled. The file name is the treatment's name; no other list exists."""
