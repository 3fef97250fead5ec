"""Opening a large notebook in JupyterLab: from starting the server until it has handed out page and notebook.

What a browser then takes to draw it is not timed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from harness.spec import DataRef, PlainBench, Workload
from harness.workloads.data import cache as data_cache
from harness.workloads.data import processes

NOTEBOOK = "large.ipynb"
TIMEOUT_S = 120.0


def prepare(cache: Path, source: Path | None, seed: int, *, cells: int) -> DataRef:
    """Make a notebook of so many cells, or take the user's folder with one of that name."""
    if source is not None:
        digest, warnings = data_cache.user_files_digest(cache, source, [NOTEBOOK])
        return DataRef(str(source.resolve()), digest, 1, warnings)
    made = data_cache.make_once(cache, f"notebook-v1-{cells}", lambda folder: _write_notebook(folder / NOTEBOOK, cells))
    return DataRef(str(made.folder), made.digest, made.items)


def _write_notebook(path: Path, cells: int) -> int:
    code = [
        {
            "cell_type": "code", "execution_count": number, "id": f"cell{number}", "metadata": {},
            "source": [f"total = sum(range({number}))\n", "total"],
            "outputs": [{
                "output_type": "execute_result", "execution_count": number, "metadata": {},
                "data": {"text/plain": [str(number * (number - 1) // 2)]},
            }],
        }
        for number in range(cells)
    ]  # fmt: skip
    path.write_text(json.dumps({"cells": code, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    return 1


class Server:
    """A JupyterLab server, started and ended again by every call."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.opened_bytes = 0

    def __call__(self) -> None:
        port = _free_port()
        server = subprocess.Popen(
            [
                sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", f"--port={port}",
                "--ServerApp.port_retries=0", "--IdentityProvider.token=", f"--ServerApp.root_dir={self.folder}",
            ],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            address = f"http://127.0.0.1:{port}"

            def answers() -> bool:
                if server.poll() is not None:
                    raise processes.CommandFailed(f"the server ended with exit code {server.returncode}")
                return _read(f"{address}/api/status") is not None

            processes.wait_until(answers, TIMEOUT_S, "the server did not answer")
            page, notebook = _read(f"{address}/lab"), _read(f"{address}/api/contents/{NOTEBOOK}")
            if page is None or notebook is None:
                raise processes.CommandFailed(f"the server answers, but has no {'notebook' if page else 'page'}")
            self.opened_bytes = len(notebook)
        finally:
            server.terminate()
            server.wait()

    def facts(self) -> dict[str, Any]:
        """How large the notebook was as it came from the server."""
        return {"notebook.bytes": self.opened_bytes}


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def _read(address: str) -> bytes | None:
    """The answer; None where there is none, or it is an error."""
    try:
        with urllib.request.urlopen(address, timeout=TIMEOUT_S) as answer:
            content: bytes = answer.read()
            return content
    except (urllib.error.URLError, ConnectionError):
        return None


def plain(mode: str, seed: int, *, folder: Path, cells: int) -> PlainBench:
    """Give one start of the server with the notebook opened."""
    server = Server(folder)
    return PlainBench(step=server, items_per_step=1, facts=server.facts)


WORKLOAD = Workload(
    name="jupyter_open",
    summary="JupyterLab's server started and a large notebook opened",
    sources=("https://jupyter-server.readthedocs.io/en/latest/developers/rest-api.html",),
    unit="runs",
    traits=frozenset({"jupyter"}),
    presets={"tiny": {"cells": 50}, "small": {"cells": 1000}, "full": {"cells": 1000}},
    devices=("cpu",),
    packages=("jupyterlab",),
    prepare=prepare,
    plain=plain,
)
