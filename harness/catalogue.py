"""docs/catalogue.md: everything that can be measured, with what and in which unit, as the code has it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from harness.config import Ledger
from harness.metrics import METRICS
from harness.plan import requires_of
from harness.record import Outcome, TrialRecord
from harness.registry import Registry
from harness.spec import Claim, Param, Requires, Treatment, Use, Workload

ALL_TRAITS = frozenset(
    {"conv", "batchnorm", "image", "attention", "gelu", "dropout", "text", "padding", "repeated_blocks"}
)
HEAD = """# Catalogue

What there is to measure, written by `harness catalogue` from the code; a test compares. Do not edit it by hand.
"""

ABOUT_TREATMENTS = """What `proof` reads is the runtime, not the setting. `numerics` is what a treatment promises of the
results: on a workload without any trait, and on one with all, where that differs. `verified on` names devices of
`results/reference/` on which the proof held.
"""
ABOUT_CLAIMS = """What three articles say, from `experiments/claims.toml`. `make claims` tests them here, and
`harness list claims` shows how each fared. The arm is compared with the one after "from", or with the plain model.
"""


def catalogue(registry: Registry, ledger: Ledger, verified: Mapping[str, Sequence[str]]) -> str:
    """The page. `verified`: on which devices each treatment's proof has held, see `verified_on`."""
    sections = [
        HEAD,
        "## Workloads\n",
        _table("name | what | unit | modes | inputs | traits | presets", map(_workload, registry.workloads.values())),
        "## Treatments\n",
        ABOUT_TREATMENTS,
        _table(
            "name | stages | what | needs | proof | numerics | addresses | verified on",
            (_treatment(each, verified.get(each.name, ())) for each in registry.treatments.values()),
        ),
        "## Metrics\n",
        _table(
            "id | unit | better | what",
            ((each.id, each.unit, each.better, each.summary) for each in METRICS.values()),
        ),
        "## Claims\n",
        ABOUT_CLAIMS,
        _table("id | what is said | metric | workload | arm", map(_claim, ledger.claims)),
    ]
    return "\n".join(sections)


def verified_on(trials: Iterable[TrialRecord]) -> dict[str, tuple[str, ...]]:
    """Treatment -> the devices on which a trial of it ended well with evidence of its proof."""
    found: dict[str, set[str]] = {}
    for trial in trials:
        if trial.outcome is Outcome.OK:
            for name in json.loads(trial.evidence_json or "{}"):
                found.setdefault(name, set()).add(trial.device)
    return {name: tuple(sorted(devices)) for name, devices in sorted(found.items())}


def mark(treatment: Treatment, verified: Sequence[str]) -> str:
    """The verified devices in words; what needs CUDA and never ran there is said to be unverified."""
    gpus = [device for device in verified if device != "cpu"]
    if "cpu" not in treatment.requires.devices and not gpus:
        return "*unverified on hardware*"
    return ", ".join(verified)


# ------------------------------------------------------------------------------------------------ rows


def _workload(workload: Workload) -> tuple[str, ...]:
    named = workload.name + (" (standard)" if workload.standard else "")
    lists = (workload.modes, workload.inputs, sorted(workload.traits), workload.presets)
    return (named, workload.summary, workload.unit, *(", ".join(each) for each in lists))


def _treatment(treatment: Treatment, verified: Sequence[str]) -> tuple[str, ...]:
    params = ", ".join(f"{name}={_default(param)}" for name, param in treatment.params.items())
    requires = requires_of(treatment, Use(treatment.name))
    return (
        f"{treatment.name}({params})" if params else treatment.name,
        ", ".join(treatment.hooks),
        treatment.summary + (" (for before arms)" if treatment.before else ""),
        needs(requires),
        _first_line(treatment.proof.after) or "see its file",
        _numerics(treatment),
        ", ".join(treatment.addresses),
        mark(treatment, verified),
    )


def _first_line(function: Callable[..., Any]) -> str:
    """The first sentence of its docstring; one that was made by another function may have none."""
    return (getattr(function, "__doc__", "") or "").strip().partition("\n")[0].rstrip(".")


def _default(param: Param) -> str:
    value = param.default
    return json.dumps(value) if isinstance(value, bool) or value == "" else str(value)


def _numerics(treatment: Treatment) -> str:
    params = {name: param.default for name, param in treatment.params.items()}
    promises = [treatment.promise(traits, params) for traits in (frozenset[str](), ALL_TRAITS)]
    return " / ".join(dict.fromkeys(promises))


def needs(requires: Requires) -> str:
    """What a treatment needs beyond the ordinary, in words."""
    words = []
    if "cpu" not in requires.devices:
        words.append("CUDA" + (" {}.{}+".format(*requires.capability) if requires.capability else ""))
    if "cuda" not in requires.devices:
        words.append("a CPU")
    words += [f"{requires.gpus} GPUs"] if requires.gpus else []
    words += [f"{requires.ranks} ranks"] if requires.ranks > 1 else []
    words += [f"mode {requires.modes[0]}"] if len(requires.modes) == 1 else []
    words += [f"input {requires.inputs[0]}"] if len(requires.inputs) == 1 else []
    words += list(requires.traits)
    words += [f"torch {requires.torch}+"] if requires.torch else []
    for each in (*requires.packages, *requires.libraries):
        words.append(each if isinstance(each, str) else " or ".join(each))
    words += list(requires.commands)
    words += ["root"] if requires.root else []
    words += [f"with {name}" for name in requires.with_treatments]
    return ", ".join(words)


def _claim(claim: Claim) -> tuple[str, ...]:
    arm = "+".join(claim.treatments) or "plain"
    before = f" from {'+'.join(claim.before)}" if claim.before else ""
    return claim.id, claim.statement, claim.metric or "none", claim.workload, arm + before


def _table(columns: str, rows: Iterable[Sequence[str]]) -> str:
    heads = [head.strip() for head in columns.split("|")]
    lines = [heads, ["---"] * len(heads), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
