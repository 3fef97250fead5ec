"""The shipped workloads as one package, wherever they lie: beside this file in a wheel, else in `workloads/`."""

from pathlib import Path

_checkout = Path(__file__).parents[2]
if (_checkout / "pyproject.toml").is_file() and (_checkout / "workloads").is_dir():
    __path__.insert(0, str(_checkout / "workloads"))
