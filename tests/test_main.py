"""Ctrl-C while the command is still being imported: no traceback, whenever it comes."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

INTERRUPTED = """
import os, signal, sys
interrupt, module = sys.argv.pop(1), sys.argv.pop(1)
class Interrupting:
    def find_spec(self, name, path, target=None):
        if name == module:
            os.kill(os.getpid(), signal.SIGINT)
if interrupt == "ignored":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
sys.meta_path.insert(0, Interrupting())
from harness.__main__ import main
main()
"""
"""The command `list treatments`, interrupted while it imports the module that is named."""


@pytest.mark.parametrize("module", ["harness.commands.cli", "click", "harness.commands.list_command"])
@pytest.mark.parametrize("interrupt", ["heeded", "ignored"])
def test_an_early_interrupt_is_no_traceback(module: str, interrupt: str):
    argv = [sys.executable, "-c", INTERRUPTED, interrupt, module, "list", "treatments"]
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert "Traceback" not in ended.stderr
    if interrupt == "ignored":  # as below nohup
        assert (ended.returncode, "amp_bf16" in ended.stdout) == (0, True)
    else:
        assert ended.returncode in (-signal.SIGINT, 128 + signal.SIGINT)
