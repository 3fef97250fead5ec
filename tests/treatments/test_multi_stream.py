"""Parts of a batch on several streams: the sound form learns what the plain one does, the one often shown does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.judge import numerics
from harness.spec import Kind, NoEffect
from harness.treatments import multi_stream
from tests.contracts import trying
from tests.treatments.traces import gemms, trace


def followed(arm: str, folder: Path) -> dict[str, Any]:
    """On a CPU there are no streams, and so no races; what is left is whether the updates are made."""
    from harness.child.torch_side.numerics import follow

    trial = trying.make_trial("gpt2_small", arm, folder, kind=Kind.NUMERICS, dropout=0.0)
    return follow(
        trial, trying.registry().workload("gpt2_small"), [trying.known(name) for name in trial.cell.arm.names]
    )


def test_the_sound_form_passes_the_numerics_check_and_the_other_is_rejected(tmp_path: Path) -> None:
    traits = trying.registry().workload("gpt2_small").traits
    plain = followed("", tmp_path)
    for sound, written in ((True, "multi_stream(n=2)"), (False, "multi_stream(n=2, sound=false)")):
        promise = multi_stream.TREATMENT.promise(traits, {"n": 2, "sound": sound})
        guard = numerics.check(promise, followed(written, tmp_path), plain, "cpu")
        assert bool(guard.wrong) is not sound, guard.words


def test_the_unsound_form_promises_too_much_for_every_workload() -> None:
    for workload in trying.registry().workloads.values():
        assert multi_stream.TREATMENT.promise(workload.traits, {"n": 4, "sound": False}) == "close"


def test_kernels_on_fewer_streams_are_no_sign_of_it() -> None:
    spread = [kernel for stream in (7, 20) for kernel in gemms(3, stream)]
    assert multi_stream.proof(None, None, trace((), spread), n=2, sound=True)["streams"] == 2
    copies = [("Memcpy HtoD (Pinned -> Device)", 20, 0, 5)]
    with pytest.raises(NoEffect, match="1 streams, not on 2"):
        multi_stream.proof(None, None, trace((), [*gemms(3), *copies]), n=2, sound=True)
