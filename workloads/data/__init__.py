"""What the shipped workloads share: data made once from a seed, or checked where it is the user's own.

`images` and `text` are what a workload file imports; they load numpy, Pillow and torch only when called.
"""
