"""Starts JupyterLab in core mode, with no third-party extension, and with the limit on output rates raised.

Is said to open large notebooks faster. Extensions that are installed and slow to load make the difference; where there
are none, there is little to leave out. The rate limit acts on running cells, not on opening a notebook.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from pathlib import Path
from typing import Any

from harness.spec import NoEffect, Proof, Requires, Treatment

SETTINGS: dict[str, dict[str, Any]] = {
    "LabApp": {"core_mode": True},
    "ServerApp": {"iopub_data_rate_limit": 1e10},
}
FILE = "jupyter_lab_config.json"
TIMEOUT_S = 60.0


def process(change: Any, machine: Any) -> Any:
    """Write the configuration, once for all trials, and have Jupyter look for it there too."""
    text = json.dumps(SETTINGS, indent=2)
    folder = Path(tempfile.gettempdir(), f"harness-jupyter-{hashlib.sha256(text.encode()).hexdigest()[:12]}")
    folder.mkdir(exist_ok=True)
    (folder / FILE).write_text(text)
    return change.with_env("JUPYTER_CONFIG_PATH", str(folder))


def proof(bench: Any, snapshot: Any, trace: Any) -> dict[str, Any]:
    """The server, started with this process's environment, reports these settings as its own."""
    import subprocess
    import sys

    command = [sys.executable, "-m", "jupyterlab", "--allow-root", "--show-config-json"]
    asked = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    reported = in_force(asked.stdout)
    missing = [
        f"{part}.{key}"
        for part, settings in SETTINGS.items()
        for key, value in settings.items()
        if reported.get(part, {}).get(key) != value
    ]
    if missing:
        raise NoEffect(f"the server does not report {', '.join(missing)} as configured")
    return {f"{part}.{key}": value for part, settings in SETTINGS.items() for key, value in settings.items()}


def in_force(text: str) -> dict[str, Any]:
    """The settings that the server printed; none where it printed something else."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


TREATMENT = Treatment(
    name="jupyter_config",
    summary="JupyterLab in core mode, its rate limit raised",
    sources=(
        "https://jupyterlab.readthedocs.io/en/stable/user/directories.html",
        "https://jupyter-server.readthedocs.io/en/latest/other/full-config.html",
    ),
    requires=Requires(devices=("cpu",), packages=("jupyterlab",), traits=("jupyter",)),
    hooks={"process": process},
    proof=Proof(after=proof),
    changes=("jupyter",),
    addresses=("host",),
)
