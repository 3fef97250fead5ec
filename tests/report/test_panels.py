"""The panels' own arithmetic and words."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import numpy as np
import pytest

from harness.judge.types import Word
from harness.record import Fact, Outcome, TrialRecord
from harness.report.format import SPACE
from harness.report.page import report_data
from harness.report.panels import (
    across,
    answer,
    cells,
    comparisons,
    counts,
    environment,
    matrix,
    ranks,
    threats,
    windows,
)


@pytest.fixture(scope="module")
def varied_data(varied_case):
    return report_data(*varied_case.arguments())


def data_with(case, **changes):
    return report_data(*replace(case, judgement=replace(case.judgement, **changes)).arguments())


# ------------------------------------------------------------------------------------------------ answer


def test_the_leading_comparison_is_the_strongest_of_the_first_verdict_found(varied_data):
    lead = answer.lead_row(varied_data.rows)
    assert lead.comparison.verdict == Word.FASTER
    assert lead.comparison.speedup == max(
        row.comparison.speedup for row in varied_data.rows if row.comparison.verdict == Word.FASTER
    )
    slower = tuple(row for row in varied_data.rows if row.comparison.verdict == Word.SLOWER)
    assert answer.lead_row(slower).arm == "omp_threads(n=1)"


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        (Word.FASTER, "With amp_bf16+channels_last, resnet50 trains 2.1"),
        (Word.SLOWER, "With amp_bf16+channels_last, resnet50 trains 2.1"),
        (Word.EQUIVALENT, "amp_bf16+channels_last makes no practical difference to resnet50 training: 2.1"),
        (Word.INCONCLUSIVE, "No verdict yet for amp_bf16+channels_last in resnet50 training: measured at 2.1"),
        (Word.INVALID, "No valid answer for amp_bf16+channels_last in resnet50 training: because"),
        (Word.NOT_RUN, "Not run: amp_bf16+channels_last in resnet50 training (because)."),
    ],
)
def test_the_answer_says_every_verdict(single_case, altered, verdict, expected):
    case = altered(single_case, lambda each: replace(each, verdict=verdict, reason="because.", blocks_needed=5))
    shown = answer.panel(report_data(*case.arguments())).content
    sentence = "".join(piece.text for piece in shown.sentence)
    assert sentence.startswith(expected)
    assert ("About 5" in sentence) == (verdict == Word.INCONCLUSIVE)


def test_before_there_is_a_number_the_answer_is_the_reason(single_case, altered):
    gone = {
        "speedup": None,
        "ci_low": None,
        "ci_high": None,
        "reason": "1 complete block; no verdict with fewer than 4",
    }
    case = altered(single_case, lambda each: replace(each, verdict=Word.INCONCLUSIVE, **gone))
    sentence = "".join(piece.text for piece in answer.panel(report_data(*case.arguments())).content.sentence)
    assert sentence.endswith("in resnet50 training: 1 complete block; no verdict with fewer than 4.")


def test_a_report_of_nothing_says_so(single_case):
    shown = answer.panel(data_with(single_case, comparisons=())).content
    assert shown.sentence[0].text.startswith("Nothing was compared")


# ------------------------------------------------------------------------------------------------ counts and threats


def test_verdicts_and_outcomes_are_counted(varied_data):
    shown = counts.panel(varied_data).content
    assert [chip.text for chip in shown.chips] == [
        *("4 faster", "3 slower", "1 equivalent", "1 inconclusive", "1 invalid", "2 not run")
    ]
    assert (
        "Trials and skips by outcome: 171 ok, 1 disturbed, 1 not applicable, 1 out of host memory." in shown.sentences
    )
    (failures,) = shown.tables
    rows = {row[0].text: row for group in failures.groups for row in group.rows}
    assert rows["loader_workers(workers=2)"][2].text == "3"
    assert rows["loader_workers(workers=2)"][3].style == "error"
    assert rows["channels_last"][2].text == "left out"
    assert rows["amp_bf16"][3].style == "absent"


def test_load_that_a_raised_limit_let_pass_and_load_that_was_not_seen_are_told(single_case):
    def told(**values):
        trials = tuple(replace(each, **values) for each in single_case.trials)
        return [
            shown.text for shown in threats.panel(report_data(*replace(single_case, trials=trials).arguments())).content
        ]

    quiet = told()
    assert not any("load" in text for text in quiet)
    assert "Up to 0.5 cores of foreign load in trials that count: the limit was set to 0.1." in told(
        foreign_cpu_share=0.5
    )
    assert "Foreign load could not be read: it is unknown." in told(foreign_cpu_share=None)


def test_threats_stand_worst_first_and_unreadable_facts_are_one(varied_case):
    facts = (*varied_case.facts, Fact(path="gpu.driver", value=None, state="denied", kind="identity"))
    shown = threats.panel(report_data(*replace(varied_case, facts=facts).arguments())).content
    assert [each.severity for each in shown] == ["warning", "note", "note"]
    assert "gpu.driver" in shown[-1].text


# ------------------------------------------------------------------------------------------------ table, matrix, CSV


def test_the_memory_column_shows_the_arm_and_its_change(varied_data):
    table = comparisons.comparison_table(varied_data)
    rows = {row[0].text: row for row in table.groups[0].rows}
    assert rows["plain PyTorch"][3].text == "1.00"
    assert (rows["amp_bf16"][6].text, rows["amp_bf16"][6].detail) == (f"0.945{SPACE}GiB", f"\u221237{SPACE}%")
    assert rows["slowdown(percent=5)"][6].detail == "unchanged"
    assert rows["slowdown(percent=5)"][3].style == "worse"
    assert rows["amp_bf16"][3].style == "better"
    assert rows["amp_bf16"][7].text == f"92{SPACE}%"


def test_each_rank_has_its_memory_and_its_bytes(varied_case, varied_data):
    row = next(row for row in varied_data.rows if row.arm == "amp_bf16" and row.trials)
    assert ranks.view(row) is None
    held = [{"items_per_step": 8.0, "peak_host_bytes": share * 2**30, "comm_bytes": 1.5 * 2**20} for share in (1, 2)]
    trials = tuple(replace(trial, rank_count=2, ranks_json=json.dumps(held)) for trial in row.trials)
    shown = ranks.view(replace(row, trials=trials))
    assert [column.title for column in shown.columns] == ["rank", "items a step", "resident (host)", "sent a step"]
    assert [[cell.text for cell in cells] for cells in shown.groups[0].rows] == [
        ["treated, rank 0", "8.00", f"1.00{SPACE}GiB", f"1.50{SPACE}MiB"],
        ["treated, rank 1", "8.00", f"2.00{SPACE}GiB", f"1.50{SPACE}MiB"],
    ]


def test_means_are_geometric_over_the_valid_cells_with_both_counts(single_case):
    first = next(each for each in single_case.judgement.comparisons if each.primary)
    cells = [("a", 2.0, Word.FASTER), ("b", 0.5, Word.SLOWER), ("c", 8.0, Word.FASTER), ("d", 64.0, Word.INVALID)]
    made = tuple(replace(first, workload=name, speedup=ratio, verdict=verdict) for name, ratio, verdict in cells)
    made += (replace(first, workload="e", speedup=None, before=None, after=None, verdict=Word.NOT_RUN, points=()),)
    table = matrix.panel(data_with(single_case, comparisons=made)).content
    (row,) = table.groups[0].rows
    assert [column.title for column in table.columns] == ["Treatment", "a", "b", "c", "d", "e", "Geometric mean"]
    assert (row[-1].text, row[-1].detail) == ("2.00", "over 3 of 5")  # (2 * 0.5 * 8) ** (1/3)
    assert row[1].style == "better shade-4"
    assert row[2].style == "worse shade-4"
    assert row[4].style == "error"
    assert "not run" in row[5].text.replace(SPACE, " ")


def test_hardware_classes_are_told_apart(single_case):
    first = next(each for each in single_case.judgement.comparisons if each.primary)
    other = tuple(replace(each, hardware_id="h2", device="NVIDIA H200") for each in single_case.trials)
    comparisons_made = (replace(first, hardware_id="h" + 63 * "9"), replace(first, hardware_id="h2"))
    case = replace(single_case, trials=(*single_case.trials, *other))
    data = data_with(case, comparisons=comparisons_made)
    assert [place.hardware for place in data.places] == ["cpu h9999999", "NVIDIA H200 h2"]
    assert [len(row.trials) for row in data.rows] == [6, 6]
    effects, *absolutes = across.panel(data).content
    assert [each.title for each in effects.columns] == ["Treatment", "cpu h9999999", "NVIDIA H200 h2", "The effect"]
    (cells,) = effects.groups[0].rows
    assert cells[1] == cells[2]
    assert cells[3].text == f"={SPACE}consistent"
    assert [each.caption for each in absolutes] == [f"Absolute values on {place.hardware}" for place in data.places]


def test_one_class_of_hardware_is_not_compared_with_itself(varied_data):
    assert across.panel(varied_data) is None


def test_csv_cells_that_a_spreadsheet_would_run_are_guarded(single_case, altered):
    case = altered(
        single_case, lambda each: replace(each, arm="=cmd|'/C calc'!A0", reason='say "no", +1', workload="@x")
    )
    rows = list(csv.DictReader(io.StringIO(comparisons.comparisons_csv(report_data(*case.arguments())))))
    assert rows[0]["arm"] == "'=cmd|'/C calc'!A0"
    assert rows[0]["workload"] == "'@x"
    assert rows[0]["reason"] == 'say "no", +1'
    assert float(rows[0]["speedup"]) == pytest.approx(2.14, rel=0.02)
    assert rows[0]["blocks"] == "6"
    assert comparisons.csv_field(-1.5) == "-1.5"
    assert comparisons.csv_field(None) == ""


# ------------------------------------------------------------------------------------------------ windows, environment


def test_several_ranks_count_as_the_slowest_of_each_window(single_case):
    data = report_data(*single_case.arguments())
    trial = TrialRecord(trial_id="t", block_index=0, session_id="s", outcome=Outcome.OK)
    columns = {
        "host_ns": np.array([100, 200, 330, 180]),
        "step_count": np.array([10, 10, 10, 10]),
        "rank": np.array([0, 0, 1, 1]),
        "window_index": np.array([0, 1, 0, 1]),
    }
    (process,) = windows.processes(replace(data, windows={"t": columns}), [trial])
    assert process.times == (33.0, 20.0)
    assert windows.processes(replace(data, windows={}), [trial]) == []


def test_what_an_arm_changes_and_what_differs_between_environments_is_marked(varied_case):
    other = tuple(replace(fact, value="2.15.0") if fact.path == "torch.version" else fact for fact in varied_case.facts)
    context = replace(varied_case.context, environments={"n1": varied_case.facts, "n2": other})
    shown = environment.panel(report_data(*replace(varied_case, context=context).arguments())).content
    between, by_arm = shown.open_tables[1:]
    assert [[cell.text for cell in row] for row in between.groups[0].rows] == [
        ["≠ torch.version", "2.14.0+cpu", "2.15.0"]
    ]
    (row,) = by_arm.groups[0].rows
    assert [cell.text for cell in row[:2]] == ["≠ torch.autocast", "False"]
    assert "amp_bf16: True" in row[2].text
    values = {row[0].text: row[1].text for row in shown.open_tables[0].groups[0].rows}
    assert values["cpu.microcode"] == "absent"


def test_a_longer_start_and_trials_out_of_memory_are_shown(varied_data):
    """One trial of four ran out of memory; 10 s of start are paid for by 50 ms a step after 200 steps."""
    row = next(row for row in varied_data.rows if row.arm == "amp_bf16" and row.trials)
    given = {"startup_time": (5e9, 15e9), "step_time_mean": (150e6, 100e6)}
    others = tuple(
        replace(row.others[0], metric=name, unit="ns", before=before, after=after)
        for name, (before, after) in given.items()
    )
    ran = [replace(trial, duration_ns=10**9) for trial in row.trials[:4]]
    trials = (*ran[:3], replace(ran[3], outcome=Outcome.OOM_HOST))
    shown = cells._summaries(replace(row, others=others, trials=trials, baseline_trials=tuple(ran)))
    assert [[cell.text for cell in line] for line in shown.groups[0].rows] == [
        ["trials out of memory, of 4 and 4", f"0{SPACE}%", f"25{SPACE}%"],
        ["a longer start is paid for by faster steps", "–", "after 200 steps"],
    ]
    never = cells._summaries(replace(row, others=(others[0],)))
    assert never.groups[0].rows[1][2].text == "never, or not known"
