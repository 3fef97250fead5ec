"""A controlled-trial harness for PyTorch optimizations. `docs/architecture.md` is the tour."""

__version__ = "0.1.0"
