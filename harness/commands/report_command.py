"""`harness report`: one HTML file an experiment, rebuilt from the results alone."""

from __future__ import annotations

import contextlib
import getpass
import hashlib
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness import __version__
from harness.commands.common import open_store, reports_option
from harness.commands.judge_command import judge_stored, stored_spec
from harness.config import parse_experiment
from harness.select import latest_work
from harness.spec import UsageError

if TYPE_CHECKING:
    from harness.judge.types import Judgement
    from harness.record import TrialRecord
    from harness.store import Store


@click.command("report")
@click.argument("experiment", required=False)
@click.argument("results", envvar="RESULTS", default="results", type=click.Path(path_type=Path))
@reports_option
@click.option("--png", is_flag=True, help="write the figures as PNG files too, for slides and papers")
def command(experiment: str | None, results: Path, reports: Path, png: bool) -> int:
    """Rebuild the report of EXPERIMENT (a stored spec id, its name, or latest), or of every stored experiment."""
    store = open_store(results)
    wanted = [stored_spec(experiment, store)] if experiment else sorted({r.spec_id for r in store.trials()})
    if not wanted:
        raise UsageError(f"there are no results in {results} yet; `make bench WORKLOAD=...` makes some")
    for spec_id in wanted:
        click.echo(f"report: {write_report(store, spec_id, reports, png=png)}")
    return 0


def write_report(
    store: Store, spec_id: str, reports: Path, judgement: Judgement | None = None, png: bool = False
) -> Path:
    """Render one experiment's report; returns its path. The same results give the same bytes."""
    from harness.report.data import ReportContext
    from harness.report.page import export_png, render, report_data

    spec_text = store.spec(spec_id)
    name = parse_experiment(spec_text, spec_id).name
    trials = latest_work(store.trials(spec_id))
    ids = [record.trial_id for record in trials if record.steps_rows]
    known = {record.environment_id for record in trials if record.environment_id}  # simulated trials have none
    environments = {environment_id: store.environment(environment_id) for environment_id in sorted(known)}
    context = ReportContext(
        command=f"harness run {spec_id[:12]}",
        spec_text=spec_text,
        spec_hash=spec_id,
        result_hashes=result_hashes(store, trials),
        generator=f"harness {__version__}",
        environments=environments,
        private_words=private_words(),
    )
    latest = environments.get(trials[-1].environment_id, []) if trials else []
    parts = (judgement or judge_stored(spec_id, store), trials, store.windows(ids), latest, store.samples(ids), context)
    path = reports / f"{name}-{spec_id[:9]}.html"
    try:
        reports.mkdir(parents=True, exist_ok=True)
        path.write_text(render(*parts), encoding="utf-8", newline="\n")
    except OSError as error:
        raise UsageError(
            f"cannot write the report {path}: {error.strerror}; give another folder with REPORTS=..."
        ) from error
    if png:
        for figure in export_png(report_data(*parts), reports / path.stem):
            click.echo(f"figure: {figure}")
    return path


def result_hashes(store: Store, trials: list[TrialRecord]) -> dict[str, str]:
    """SHA-256 of the files in trials/ that hold this experiment's rows; each row holds those of its siblings."""
    wanted = {record.trial_id for record in trials}
    hashes = {}
    for path in sorted((store.root / "trials").glob("*.parquet")):
        if path.stem in wanted or path.stem.startswith("compact"):
            hashes[f"trials/{path.name}"] = hashlib.sha256(path.read_bytes()).hexdigest()
    return hashes


def private_words() -> tuple[str, ...]:
    """Words of this machine that must never reach a report."""
    words = {socket.gethostname()}
    with contextlib.suppress(KeyError, OSError):  # some containers know no such user
        words.add(getpass.getuser())
    return tuple(sorted(words - {"root", "localhost", ""}))
