"""What a child reads of its own process."""

from __future__ import annotations

import subprocess
import sys

import torch  # so that its library is mapped

from harness.child import host
from harness.child.torch_side import probe


def test_the_libraries_that_are_mapped() -> None:
    assert torch.__version__
    found = host.mapped_libraries()
    assert any("libtorch_cpu" in path for path in found)
    assert len(found) == len(set(found))


def test_the_processes_below_this_one() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert child.pid in [process.pid for process in host.processes()]
        child.communicate(b"\n")
    assert child.pid not in [process.pid for process in host.processes()]


def test_nothing_is_compiled_where_torch_compile_was_never_called() -> None:
    assert set(probe.compile_counters()) == {"frames", "graph_breaks", "recompiles", "cudagraph_skips"}
