"""Another command line in place of the workload's: the "after" of a before/after experiment with any program.

It helps where the change to be tested is in the program or its arguments, and not in the process around it. Both are
run in the same folder, each time as a whole process that must end with exit code 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.spec import Bench, NoEffect, NotApplicable, Param, Proof, Requires, Trace, Treatment
from harness.workloads.data import processes  # type: ignore[import-untyped]  # linked in at run time

NAME = "other_command"


def instead(step: Callable[[], Any], bench: Bench, line: str) -> Callable[[], Any]:
    """Run this line wherever the workload's own would run."""
    if not isinstance(step, processes.Command):
        raise NotApplicable("another treatment of the arm is around the command already")
    step.arguments = processes.split_line(line)
    bench.kept[NAME] = step
    return step


def proof(bench: Bench, snapshot: Any, trace: Trace, line: str) -> dict[str, Any]:
    """The line has run, and ended well each time; what it wrote last is kept among the facts, as the workload does."""
    other = bench.kept.get(NAME)
    if other is None or not other.runs:
        raise NoEffect("the other command has not been run")
    return {"command": list(other.arguments), "runs": other.runs}


TREATMENT = Treatment(
    name=NAME,
    summary="another command line in place of the workload's",
    sources=("https://docs.python.org/3/library/subprocess.html",),
    params={"line": Param("true", "the command line, as a shell would split it")},
    requires=Requires(traits=("command",)),
    hooks={"between": instead},
    proof=Proof(after=proof),
    changes=("command",),
    numerics=lambda traits: "changes",
)
