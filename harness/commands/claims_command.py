"""`harness claims`: tests what the articles say, experiment by experiment, and writes the ledger's report."""

from __future__ import annotations

import contextlib
import dataclasses
from collections import Counter
from pathlib import Path
from typing import Any

import click

from harness import __version__
from harness.claims import ClaimsPlan, judge_claims, plan_claims
from harness.commands.claims_measuring import Campaign, left_over
from harness.commands.common import (
    describe_machine,
    json_option,
    open_store,
    print_table,
    results_option,
    to_json,
)
from harness.commands.exit_codes import Exit
from harness.commands.measuring import Measuring, measuring_options
from harness.commands.report_command import private_words, write_report
from harness.config import load_ledger, parse_duration, parse_experiment
from harness.judge.claims import ClaimWord, JudgedClaim
from harness.registry import load_registry
from harness.spec import UsageError

NotRun = list[tuple[str, str]]
"""Names of experiments that were left out, with the reason."""


@click.command("claims")
@click.option("--article", envvar="ARTICLE", default="", help="one article only, e.g. 001 [ARTICLE]")
@click.option("--ledger", type=click.Path(path_type=Path), help="another ledger of claims, written like ours")
@click.option("--budget", envvar="BUDGET", default="150m", show_default=True, help="for all together [BUDGET]")
@click.option("--preset", envvar="PRESET", default="", help="tiny, small or full [PRESET]")
@click.option("--device", envvar="DEVICE", default="auto", help="auto, cpu or cuda [DEVICE]")
@click.option("--max-blocks", envvar="MAX_BLOCKS", type=int, help="blocks at most [MAX_BLOCKS]")
@click.option("--max-foreign-load", type=float, help="cores of other processes' work above which a block is dropped")
@click.option("--max-steal", type=float, help="share of stolen CPU time above which a block is dropped")
@click.option("--no-measure", is_flag=True, help="judge what is stored and write the report, measuring nothing")
@results_option
@measuring_options
@json_option
def command(
    article: str,
    ledger: Path | None,
    budget: str,
    preset: str,
    device: str,
    max_blocks: int | None,
    max_foreign_load: float | None,
    max_steal: float | None,
    no_measure: bool,
    how: Measuring,
    as_json: bool,
) -> int:
    """Test the claims of experiments/claims.toml here, as far as BUDGET reaches; run again to go on."""
    plugged = load_registry(how.plugins)
    analysis = {"max_blocks": max_blocks, "max_foreign_cpu_share": max_foreign_load, "max_steal_share": max_steal}
    plan = plan_claims(load_ledger(ledger), plugged, describe_machine(), device=device, preset=preset, article=article)
    plan = _with_analysis(plan, {key: value for key, value in analysis.items() if value is not None})
    rows = judged_claims(plan, how.results)
    not_run: NotRun = []
    code = 0
    if not no_measure:
        open_store(how.results, writable=True)
        campaign = Campaign(plan, plugged, how, parse_duration(budget))
        not_run = left_over(campaign.run(rows))
        for spec_id in campaign.measured.values():
            write_report(open_store(how.results), spec_id, how.reports)
        rows, code = judged_claims(plan, how.results), campaign.exit_code
    if as_json:
        click.echo(to_json([as_row(row) for row in rows]))
    else:
        show(rows, not_run)
    path = _write_report(rows, not_run, plan, how.reports, article)
    click.echo(f"\nreport: {path}", err=as_json)
    if how.strict and any(row.verdict.word is ClaimWord.CONTRADICTED for row in rows):
        return Exit.CONTRADICTED
    return code


def _with_analysis(plan: ClaimsPlan, wishes: dict[str, Any]) -> ClaimsPlan:
    """The plan with the command line's limits in every experiment."""
    experiments = [
        dataclasses.replace(each, analysis=dataclasses.replace(each.analysis, **wishes)) for each in plan.experiments
    ]
    return dataclasses.replace(plan, experiments=tuple(experiments))


# ------------------------------------------------------------------------------------------------ showing


def judged_claims(plan: ClaimsPlan, results: Path) -> list[JudgedClaim]:
    """The verdict on every claim from what is stored; with no results yet, what is planned."""
    from harness.commands.judge_command import judge_stored

    if not results.is_dir():
        return judge_claims(plan, {}, _nothing_stored)
    store = open_store(results)
    stored = {}
    for spec_id, text in store.specs().items():
        with contextlib.suppress(UsageError):  # one that this version cannot read holds no claim of this ledger
            stored[spec_id] = parse_experiment(text, spec_id)
    return judge_claims(plan, stored, lambda spec_id: judge_stored(spec_id, store))


def _nothing_stored(spec_id: str) -> Any:
    raise AssertionError(f"{spec_id} is not stored")


def as_row(row: JudgedClaim) -> dict[str, Any]:
    """A claim as `--json` prints it."""
    verdict = row.verdict
    return {
        "name": row.claim.id,
        "status": row.status,
        "verdict": str(verdict.word),
        "reason": verdict.reason,
        "metric": verdict.metric or row.claim.metric,
        "claimed": None if verdict.claimed is None else list(verdict.claimed),
        "change": verdict.change,
        "low": verdict.low,
        "high": verdict.high,
        "blocks": verdict.blocks,
        "workload": row.workload,
        "arm": row.arm,
        "baseline": row.baseline,
        "experiment": row.experiment,
        "spec_id": row.spec_id,
        "statement": row.claim.statement,
        "as_written": row.claim.as_written,
    }


def show(rows: list[JudgedClaim], not_run: NotRun) -> None:
    """The ledger as a table, and what the budget did not reach."""
    from harness.report.panels.claims import claimed_text, measured_text

    print_table(
        "Claims",
        ("claim", "workload", "arm", "claimed", "measured", "verdict", "why"),
        [
            (
                row.claim.id,
                row.workload,
                row.arm or ("(plain)" if row.workload else ""),
                claimed_text(row),
                measured_text(row.verdict),
                str(row.verdict.word).upper(),
                row.verdict.reason,
            )
            for row in rows
        ],
    )
    for name, reason in not_run:
        click.echo(f"not run: {name}: {reason}")
    tested = sum(row.status == "tested" for row in rows)
    words = Counter(str(row.verdict.word) for row in rows)
    click.echo(f"\n{len(rows)} rows, {tested} tested: {', '.join(f'{n} {word}' for word, n in words.most_common())}")
    if not_run:
        click.echo("Run the same command again to go on where this stopped.")


def _write_report(rows: list[JudgedClaim], not_run: NotRun, plan: ClaimsPlan, reports: Path, article: str) -> Path:
    from harness.report.page import render_claims

    path = reports / f"claims{'_' + article if article else ''}.html"
    machine = describe_machine()
    where = machine.gpus[0].name if plan.device == "cuda" else machine.cpu_model or "this CPU"
    html = render_claims(rows, not_run, where, f"harness {__version__}", private_words())
    try:
        reports.mkdir(parents=True, exist_ok=True)
        path.write_text(html, encoding="utf-8", newline="\n")
    except OSError as error:
        raise UsageError(
            f"cannot write the report {path}: {error.strerror}; give another folder with REPORTS=..."
        ) from error
    return path
