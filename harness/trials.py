"""What a trial of a plan is: cell, seed, data, folders, the code it imports, and how its processes are started."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from harness import identity
from harness.arms import full_params
from harness.plan import Place, Plan
from harness.record import TrialRecord
from harness.registry import Registry
from harness.spec import Arm, Cell, DataRef, Kind, ProcessChange, Treatment, Trial, UsageError, Use

if TYPE_CHECKING:
    from harness.machine import Machine

NO_DATA = DataRef(folder="", digest="", items=0)


@dataclass(frozen=True, kw_only=True)
class Trials:
    """Makes the trials of one session."""

    plan: Plan
    registry: Registry
    machine: Machine
    base_env_id: str
    spec_id: str
    session_id: str
    cache: Path
    """The folder for data and compiled code, which outlives the session."""
    work: Path
    """The folder in which each trial gets one of its own."""
    on_bad_item: str
    data: dict[Place, DataRef] = field(default_factory=dict)
    """Filled by `make_data`."""
    code_ids: dict[tuple[str, str], str] = field(default_factory=dict)
    """By workload and arm, as they were when first asked for."""

    def make(self, place: Place, arm: str, kind: Kind, block: int | None, position: int | None) -> Trial:
        """A new trial of an arm at a place."""
        trial_id = identity.new_id()
        data = self.data.get(place, NO_DATA)
        also = self.plan.foreign_uses(place) if kind is Kind.PREPARE and arm == self.plan.baseline else ()
        cell = Cell(
            workload=place.workload,
            params=dict(place.params),
            preset=place.preset,
            mode=place.mode,
            input=place.input,
            data_digest=data.digest,
            device=self.plan.device,
            arm=self.arm(arm),
            kind=kind,
            measure=self.plan.experiment.measure,
        )
        ranks = self.process_change(arm).ranks
        names = sorted({use.name for use in (*self.arm(arm).uses, *also)})
        return Trial(
            trial_id=trial_id,
            spec_id=self.spec_id,
            session_id=self.session_id,
            cell=cell,
            cell_id=identity.cell_id(cell),
            is_baseline=arm == self.plan.baseline,
            block_index=block,
            position=position,
            seed=self.plan.experiment.seed + (block or 0),
            device_index=None if self.plan.device == "cpu" else 0,
            threads=max(1, self.plan.threads // ranks),
            rank_count=ranks,
            data_folder=data.folder,
            items_in_data=data.items,
            work_folder=str(self.work / trial_id),
            compile_cache=str(self.compile_cache(place, arm)),
            workload_source=self.registry.workload_source(place.workload),
            treatment_sources=tuple(map(self.registry.treatment_source, names)),
            also_prove=also,
            on_bad_item=self.on_bad_item,  # type: ignore[arg-type]
        )

    def arm(self, text: str) -> Arm:
        """An arm of the plan, or the plain one, which numerics are compared with also where it is not measured."""
        return self.plan.arms[text] if text else Arm()

    def treatments(self, arm: str) -> list[tuple[Treatment, Use]]:
        """The treatments of an arm, with what the arm says of them."""
        return [(self.registry.treatments[use.name], use) for use in self.arm(arm).uses]

    def process_change(self, arm: str) -> ProcessChange:
        """How the processes of an arm are to be started."""
        return process_change(self.arm(arm), self.registry, self.machine)

    # -------------------------------------------------------------------------------------------- data and caches

    def make_data(self, place: Place, source: Path | None) -> Sequence[str]:
        """Make the data of a place, or find them made; returns what the user should be warned of."""
        workload = self.registry.workload(place.workload)
        if workload.prepare is None:
            self.data[place] = NO_DATA
        else:
            seed = self.plan.experiment.seed
            self.data[place] = workload.prepare(cache=self.cache / "data", source=source, seed=seed, **place.params)
        return self.data[place].warnings

    def compile_cache(self, place: Place, arm: str) -> Path:
        """A private folder for each arm, code and environment; a cold arm gets a new one every time."""
        key = identity.digest(
            "x", [place.workload, dict(place.params), place.mode, arm, self.code_id(place, arm), self.base_env_id]
        )
        folder = self.cache / "compile" / key[:20]
        if self.plan.experiment.measure.compile_cache == "cold":
            return folder / identity.new_id()
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def is_at(self, record: TrialRecord, place: Place) -> bool:
        """Whether a stored trial was measured at a place, with the data that are there now."""
        return (
            record.workload == place.workload
            and json.loads(record.params_json) == dict(place.params)
            and (place not in self.data or record.data_digest in ("", self.data[place].digest))
        )

    # -------------------------------------------------------------------------------------------- code

    def code_id(self, place: Place, arm: str) -> str:
        """The hash of the sources that a child of this arm imports."""
        key = (place.workload, arm)
        if key not in self.code_ids:
            self.code_ids[key] = self._read_code(*key)
        return self.code_ids[key]

    def _read_code(self, workload: str, arm: str) -> str:
        sources = [self.registry.workload_source(workload)]
        sources += [self.registry.treatment_source(use.name) for use in self.arm(arm).uses]
        return identity.code_id(identity.code_parts(sources))

    def check_code(self) -> None:
        """A source edited while its arms are measured would make the rest something else under the same id."""
        for key, known in self.code_ids.items():
            if self._read_code(*key) != known:
                raise UsageError(
                    f"the sources behind {key[0]} {key[1] or 'baseline'} changed while it was measured; "
                    "what is stored stays as it is, run the command again to measure the new code"
                )


def process_change(arm: Arm, registry: Registry, machine: Machine) -> ProcessChange:
    """How the processes of an arm are to be started."""
    change = ProcessChange()
    for use in arm.uses:
        treatment = registry.treatments[use.name]
        if "process" in treatment.hooks:
            change = treatment.hooks["process"](change, machine, **full_params(use, treatment))
    return change
