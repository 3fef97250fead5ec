"""Exports the model and compiles it ahead of time with Inductor into a library, which then runs without Dynamo.

Helps where start-up matters, since the library can be kept, and where Python's share of a step is large. What cannot
be exported as one graph does not run, and shapes are fixed.
"""

from __future__ import annotations

from typing import Any

from harness.spec import NoEffect, Proof, Requires, Treatment
from harness.treatments._exporting import Exported, calls_so_far, close_outputs


def compile_model(model: Any, bench: Any) -> Any:
    """model -> the same, loaded from a package; the package's folder goes with the process."""
    import tempfile

    folder = bench.kept["inductor_aot"] = tempfile.TemporaryDirectory(prefix="harness-aot-")

    def packaged(model: Any, images: Any) -> Any:
        import torch
        from torch._inductor import aoti_compile_and_package, aoti_load_package

        program = torch.export.export(model, (images,))
        return aoti_load_package(aoti_compile_and_package(program, package_path=f"{folder.name}/model.pt2"))

    return Exported(model, packaged)


def proof(bench: Any, snapshot: int, trace: Any) -> dict[str, Any]:
    """The model was called through its package since the warm-up, whose library is mapped; outputs are close."""
    difference, calls = close_outputs(bench), calls_so_far(bench) - snapshot
    libraries = [path for path in bench.mapped_libraries() if path.endswith(".wrapper.so")]
    if calls <= 0 or not libraries:
        raise NoEffect(f"the model's package was called {calls} times, {len(libraries)} libraries of packages mapped")
    return {"calls": calls, "largest_relative_difference": difference, "libraries": len(libraries)}


TREATMENT = Treatment(
    name="inductor_aot",
    summary="the model compiled ahead of time by Inductor",
    sources=("https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/torch.compiler_aot_inductor.html",),
    requires=Requires(modes=("infer",), traits=("image",)),
    hooks={"compile": compile_model},
    proof=Proof(after=proof, before=calls_so_far),
    addresses=("host", "launch", "compute"),
)
