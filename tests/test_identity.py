"""Ids: golden values under any hash seed and locale, equal for equal work only, and unknown equal to nothing."""

from __future__ import annotations

import dataclasses
import math
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import identity
from harness.identity import ID, canonical_json, code_id, code_parts, compare_facts, facts_id, new_id, same_fact
from harness.record import Fact
from harness.spec import Analysis, Arm, Cell, Experiment, Kind, Measure, Source, Use

CELL = Cell(
    workload="resnet50",
    params={"width": 1.0, "batch": 4, "image": 64},
    preset="tiny",
    mode="train",
    input="loader",
    data_digest="d" * 64,
    device="cpu",
    arm=Arm((Use("amp_bf16"), Use("torch_compile", (("mode", "default"),)))),
    kind=Kind.TIMING,
    measure=Measure(),
)
GOLDEN_JSON = (
    '{"arm":{"uses":[{"name":"amp_bf16","params":[]},{"name":"torch_compile","params":[["mode","default"]]}]},'
    '"data_digest":"' + "d" * 64 + '","device":"cpu","input":"loader","kind":"timing",'
)

PROGRAM = """
import sys
sys.path.insert(0, {checkout!r})
from harness.identity import canonical_json, digest, environment_id
from harness.record import Fact
value = {{"b": {{3, 1, 2}}, "a": [1, 1.0, True, None, "caf\\u00e9 \\u0130"], "c": frozenset("xyz"), "d": 1e-7}}
print(canonical_json(value), digest("x", value), environment_id([Fact(path="b"), Fact(path="a", value="1")]))
"""
GOLDEN = (
    '{"a":[1,1.0,true,null,"caf\\u00e9 \\u0130"],"b":[1,2,3],"c":["x","y","z"],"d":1e-07} '
    "xd74ee7862b78b79badf02dfee6487039be8e4761bcd21a513782e9b65e99ec94 "
    "n9a37c85cb08915331a82c964ef65e6b660105d0bae03b5d23bc31daf1fe802f6"
)


def test_ids_are_the_same_under_any_hash_seed_and_locale(checkout: Path) -> None:
    program = PROGRAM.format(checkout=str(checkout))
    outputs = set()
    for seed, locale in (("0", "C"), ("1", "C.UTF-8"), ("4242", "tr_TR.UTF-8"), ("random", "POSIX")):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "LC_ALL": locale, "LANG": locale}
        done = subprocess.run(
            [sys.executable, "-S", "-c", program], env=environment, capture_output=True, text=True, check=True
        )
        outputs.add(done.stdout.strip())
    assert outputs == {GOLDEN}


def test_the_id_of_a_cell_is_golden() -> None:
    assert canonical_json(CELL).startswith(GOLDEN_JSON)
    assert identity.digest("c", {"a": 1}) == "c015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862"
    assert identity.cell_id(CELL) == identity.digest("c", CELL)


def test_equal_work_has_an_equal_id_whatever_the_order_it_was_written_in() -> None:
    again = dataclasses.replace(CELL, params={"image": 64, "batch": 4, "width": 1.0})
    assert identity.cell_id(again) == identity.cell_id(CELL)


@pytest.mark.parametrize(
    "change",
    [
        {"workload": "vit_base"},
        {"params": {"width": 1.0, "batch": 8, "image": 64}},
        {"params": {"width": 1, "batch": 4, "image": 64}},
        {"preset": "small"},
        {"mode": "infer"},
        {"input": "resident"},
        {"data_digest": "e" * 64},
        {"device": "cuda"},
        {"arm": Arm()},
        {"arm": Arm((Use("amp_bf16"), Use("torch_compile", (("mode", "max-autotune"),))))},
        {"kind": Kind.NUMERICS},
        {"measure": Measure(windows=30)},
    ],
)
def test_any_change_of_a_cell_changes_its_id(change: dict[str, Any]) -> None:
    assert identity.cell_id(dataclasses.replace(CELL, **change)) != identity.cell_id(CELL)


def test_more_budget_is_the_same_experiment_and_another_margin_is_not() -> None:
    asked = Experiment(workloads=("resnet50",), arms=("amp_bf16",))
    longer = dataclasses.replace(asked, analysis=Analysis(budget="20m"))
    other = dataclasses.replace(asked, analysis=Analysis(rope=0.02))
    assert identity.spec_id(longer) == identity.spec_id(asked)
    assert identity.spec_id(other) != identity.spec_id(asked)
    assert identity.spec_id(asked).startswith("s")


@pytest.mark.parametrize("value", [math.nan, math.inf, {1: "a"}, b"bytes", object(), {"a": {"b": -math.inf}}])
def test_what_has_no_one_text_is_refused(value: object) -> None:
    with pytest.raises(TypeError):
        canonical_json(value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_canonical_json_is_json_that_says_the_same(value: object) -> None:
    import json

    text = canonical_json(value)
    assert json.loads(text) == value
    assert canonical_json(json.loads(text)) == text
    assert text.isascii()


# ------------------------------------------------------------------------------------------------ code


def test_the_code_of_a_trial_is_the_engine_the_plug_in_and_what_it_imports(tmp_path: Path) -> None:
    plugin = tmp_path / "mine.py"
    plugin.write_text("def model():\n    from harness import metrics\n    import json\n")
    source = Source(name="mine", module="harness.plugins.mine", path=str(plugin), constant="WORKLOAD")
    parts = code_parts([source])
    assert {"harness.spec", "harness.record", "harness.plugins.mine", "harness.metrics"} <= set(parts)
    assert any(name.startswith("harness.child") for name in parts)
    assert not {"harness.store", "harness.session", "harness.report", "json"} & set(parts)
    assert str(tmp_path) not in repr(parts)
    before = code_id(parts)
    plugin.write_text(plugin.read_text() + "\n# changed\n")
    assert code_id(code_parts([source])) != before
    (changed,) = compare_facts(identity.code_facts(parts), identity.code_facts(code_parts([source])))
    assert changed.path == "code.harness.plugins.mine"


def test_relative_imports_are_followed(tmp_path: Path) -> None:
    plugin = tmp_path / "mine.py"
    plugin.write_text("from ..spec import Arm\nfrom .. import steady\n")
    parts = code_parts([Source(name="mine", module="harness.plugins.mine", path=str(plugin), constant="WORKLOAD")])
    assert "harness.steady" in parts


# ------------------------------------------------------------------------------------------------ facts

KNOWN = Fact(path="gpu.0.power_limit", value="400000", unit="mW", kind="hardware")


def test_equal_facts_make_one_hardware_class_and_another_power_limit_makes_another() -> None:
    other = dataclasses.replace(KNOWN, value="500000")
    assert facts_id("h", [KNOWN], "m1") == facts_id("h", [KNOWN], "m2")
    assert facts_id("h", [KNOWN], "m1") != facts_id("h", [other], "m1")
    assert facts_id("h", [KNOWN], "m1") != facts_id("h", [dataclasses.replace(KNOWN, unit="W")], "m1")


@pytest.mark.parametrize("state", ["denied", "error", "ok"])
def test_what_could_not_be_read_never_equals_anything(state: Any) -> None:
    unknown = dataclasses.replace(KNOWN, value=None, state=state)
    assert facts_id("h", [unknown], "m1") != facts_id("h", [unknown], "m1")
    assert not same_fact(unknown, unknown)
    (change,) = compare_facts([unknown], [unknown])
    assert "unknown" in change.before


def test_what_is_not_supported_is_known_of_one_machine_only_and_what_is_absent_is_known() -> None:
    unsupported, absent = (dataclasses.replace(KNOWN, value=None, state=state) for state in ("unsupported", "absent"))
    assert facts_id("h", [unsupported], "m1") == facts_id("h", [unsupported], "m1")
    assert facts_id("h", [unsupported], "m1") != facts_id("h", [unsupported], "m2")
    assert facts_id("h", [absent], "m1") == facts_id("h", [absent], "m2")
    assert facts_id("h", [absent], "m1") != facts_id("h", [unsupported], "m1")


def test_the_difference_of_two_environments_names_what_differs_the_decisive_first() -> None:
    before = [
        Fact(path="package.torch", value="2.14.1", kind="identity"),
        Fact(path="cpu.governor", value="powersave"),
        Fact(path="cpu.model", value="A", kind="hardware"),
        Fact(path="same", value="1"),
        Fact(path="gpu.driver", value=None, state="absent", kind="identity"),
    ]
    after = [
        Fact(path="package.torch", value="2.15.0", kind="identity"),
        Fact(path="cpu.governor", value=None, state="denied"),
        Fact(path="cpu.model", value="B", kind="hardware"),
        Fact(path="same", value="1"),
        Fact(path="gpu.driver", value="580.1", kind="identity"),
        Fact(path="new", value="3", unit="GB"),
    ]
    assert [str(change) for change in compare_facts(before, after)] == [
        "gpu.driver absent -> 580.1",
        "torch 2.14.1 -> 2.15.0",
        "cpu.model A -> B",
        "cpu.governor powersave -> unknown (denied)",
        "new not recorded -> 3 GB",
    ]


# ------------------------------------------------------------------------------------------------ names


def test_names_are_unique_and_in_order_also_from_many_threads() -> None:
    made: list[list[str]] = [[] for _ in range(4)]
    threads = [
        threading.Thread(target=lambda own: own.extend(new_id() for _ in range(2000)), args=(own,)) for own in made
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(own == sorted(own) for own in made)
    assert len({name for own in made for name in own}) == 8000
    assert all(ID.fullmatch(name) for name in made[0])


def test_a_name_holds_the_time_it_was_made() -> None:
    import time
    import uuid

    made = uuid.UUID(new_id())
    assert made.version == 7
    assert abs((made.int >> 80) - time.time_ns() // 1_000_000) < 60_000
