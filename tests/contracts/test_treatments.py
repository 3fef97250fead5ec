"""What every treatment owes, tried on the real engine: it shows when it is there, and never when it is not."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from harness.arms import full_params
from harness.record import Outcome
from harness.spec import Requires, Use
from tests.contracts import places, trying

NAMES = sorted(trying.registry().treatments)
COMPILED = [name for name in NAMES if "compile" in trying.known(name).hooks or name == "attention_block_sparse"]
LIGHT = [name for name in NAMES if name not in COMPILED]
TRAITS = (
    "batchnorm",
    "conv",
    "padding",
    "dropout",
    "text",
    "image",
    "attention",
    "gelu",
    "repeated_blocks",
    "attention_function",
)

NODES = Path("/sys/devices/system/node/online")
ALREADY_SO_HERE = {
    *(["numa_bind"] if not NODES.exists() or NODES.read_text().strip() == "0" else []),
    *(["cpu_affinity"] if trying.machine().cores == 1 else []),
}
"""What this machine cannot be without: with one NUMA node, or one core, everything is bound to it."""


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data and compiled code that the trials of a run share."""
    return tmp_path_factory.mktemp("contracts")


# ------------------------------------------------------------------------------------------------ what can be read


@pytest.mark.parametrize("name", NAMES)
def test_is_described(name: str) -> None:
    treatment = trying.known(name)
    source = trying.registry().sources[f"treatment:{name}"]
    assert Path(source.path).stem == name
    assert treatment.summary
    assert not treatment.summary.endswith(".")
    assert treatment.sources
    assert all(url.startswith("https://") for url in treatment.sources)
    assert len((sys.modules[source.module].__doc__ or "").split()) > 25, (
        "says what it does, when it helps, when it hurts"
    )
    assert treatment.hooks
    assert all(param.about for param in treatment.params.values())
    for traits in (frozenset[str](), frozenset(TRAITS)):
        assert treatment.numerics(traits) in ("identical", "close", "changes")


@pytest.mark.parametrize("name", NAMES)
def test_hooks_and_proof_take_what_they_are_given(name: str) -> None:
    treatment = trying.known(name)
    params = full_params(Use(name), treatment)
    for hook in treatment.hooks.values():
        inspect.signature(hook).bind(object(), object(), **params)
    inspect.signature(treatment.proof.after).bind(object(), object(), object(), **params)
    if treatment.proof.before:
        inspect.signature(treatment.proof.before).bind(object(), **params)
    if treatment.requires_for:
        assert isinstance(treatment.requires_for(**params), Requires)


def test_importing_all_of_them_imports_no_torch() -> None:
    code = "import sys; from harness.registry import load_registry; load_registry(); print('torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


# ------------------------------------------------------------------------------------------------ what shows in a run


def test_every_proof_holds_in_company_and_refuses_without(folder: Path) -> None:
    """Few arms that hold all light treatments between them; each is run as it is, and once with twins only."""
    packed = places.companies(LIGHT, folder)
    tried = {name for arms in packed.values() for arm in arms for name in arm.names}
    assert len(tried) > len(LIGHT) // 2
    for (place, _), arms in packed.items():
        for arm in arms:
            check_applied(place, places.written(arm), folder)
        check_refused(
            place, "+".join(sorted({part for arm in arms for part in places.written(arm).split("+")})), folder
        )


def test_a_compiled_model_shows_and_its_twin_does_not(folder: Path) -> None:
    place = next(places.places("torch_compile", folder))
    check_applied(place, "torch_compile", folder)
    check_refused(place, "torch_compile", folder)


@pytest.mark.full
@pytest.mark.parametrize("name", NAMES)
def test_alone_everywhere_and_refused_as_a_twin(name: str, folder: Path) -> None:
    found = list(places.places(name, folder))
    if not found:
        pytest.skip(places.why_nowhere(name, folder))
    outcomes = []
    for place in found:
        arm = places.arm_of(name)
        record = trying.run(place.trial(arm, folder))
        outcomes.append(record.outcome)
        assert record.outcome in (Outcome.OK, Outcome.NOT_STEADY, Outcome.NOT_APPLICABLE), f"{place}: {record.reason}"
        if record.outcome is Outcome.NOT_APPLICABLE:
            continue
        assert name in record.evidence, f"{place}: {record.reason}"
        if place == found[0] and name not in ALREADY_SO_HERE:
            twin = trying.run(place.trial(arm, folder), twins=[name])
            assert twin.outcome is Outcome.NOT_APPLIED, f"{place}: the twin was believed: {twin.evidence.get(name)}"
            assert twin.reason.startswith(f"{name}:")
    assert any(outcome is not Outcome.NOT_APPLICABLE for outcome in outcomes)


@pytest.mark.full
@pytest.mark.parametrize("twin", ["", "amp_bf16", "channels_last", "torch_compile"])
def test_the_usual_stack_and_each_twin_in_it(twin: str, folder: Path) -> None:
    """Compiled code lays images out by itself: the twin of channels_last must still be told from the real one."""
    trial = places.Place("resnet50").trial("amp_bf16+channels_last+torch_compile", folder)
    record = trying.run(trial, twins=[twin] if twin else [])
    assert record.outcome is (Outcome.NOT_APPLIED if twin else Outcome.OK), record.reason
    if twin:
        assert record.reason.startswith(f"{twin}:")


def check_applied(place: places.Place, arm: str, folder: Path) -> None:
    record = trying.run(place.trial(arm, folder))
    assert record.outcome in (Outcome.OK, Outcome.NOT_STEADY), f"{arm} at {place}: {record.outcome}: {record.reason}"
    assert set(record.evidence) == set(trying.resolved(arm).names)


def check_refused(place: places.Place, arm: str, folder: Path) -> None:
    """The untreated workload, which is what an arm of twins is, passes none of the proofs, and breaks none."""
    record = trying.run(place.trial("", folder, prove=arm))
    assert record.outcome in (Outcome.OK, Outcome.NOT_STEADY), (
        f"untreated at {place}: {record.outcome}: {record.reason}"
    )
    believed = {use.partition("(")[0] for use in record.already_so} - ALREADY_SO_HERE
    assert not believed, f"believed at {place} without the treatment: {dict(record.already_so)}"
    assert "foreign_proof_errors" not in record.facts, record.facts["foreign_proof_errors"]
