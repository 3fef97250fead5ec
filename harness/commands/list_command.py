"""`harness list`: what there is to choose from."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import click

from harness.commands.common import (
    describe_machine,
    json_option,
    open_store,
    plugin_options,
    print_table,
    results_option,
    to_json,
)
from harness.config import experiment_files, load_experiment
from harness.registry import Registry, load_registry

KINDS = ("workloads", "treatments", "experiments", "metrics", "claims", "runs")


@click.command("list")
@click.argument("kind", type=click.Choice(KINDS))
@plugin_options
@results_option
@json_option
def command(kind: str, plugins: tuple[Path, ...], results: Path, as_json: bool) -> int:
    """List one kind of thing as a table, or as JSON objects that have at least a name."""
    plugged = load_registry(plugins) if kind in ("workloads", "treatments", "claims") else None
    rows = _rows(kind, plugged, results, as_json)
    if as_json:
        click.echo(to_json(rows))
    else:
        columns = ["name", *[key for key in (rows[0] if rows else {}) if key != "name"]]
        print_table(kind, columns, [[_text(row[column]) for column in columns] for row in rows])
    return 0


def _rows(kind: str, plugged: Registry | None, results: Path, as_json: bool) -> list[dict[str, Any]]:
    match kind:
        case "workloads":
            assert plugged is not None
            return [
                {
                    "name": w.name,
                    "unit": w.unit,
                    "traits": sorted(w.traits),
                    "modes": w.modes,
                    "presets": list(w.presets),
                    "summary": w.summary,
                }
                for w in plugged.workloads.values()
            ]
        case "treatments":
            from harness.catalogue import mark, needs
            from harness.commands.catalogue_command import reference_devices

            assert plugged is not None
            # Reads Parquet, which a table to look at should not wait for.
            verified = reference_devices() if as_json else {}
            return [
                {
                    "name": t.name,
                    "stages": list(t.hooks),
                    "parameters": {key: param.default for key, param in t.params.items()},
                    "devices": t.requires.devices,
                    "needs": needs(t.requires),
                    **({"verified": mark(t, verified.get(t.name, ()))} if as_json else {}),
                    "summary": t.summary,
                }
                for t in plugged.treatments.values()
            ]
        case "experiments":
            return [
                {"name": name, "question": load_experiment(path).question} for name, path in experiment_files().items()
            ]
        case "metrics":
            return _metrics()
        case "claims":
            return _claims(plugged, results)
        case _:
            return _runs(results)


def _metrics() -> list[dict[str, Any]]:
    """Every metric, what it is a number of, what it needs, and whether this machine can fill it."""
    from harness import nvml

    metrics = importlib.import_module("harness.metrics")
    api, _ = nvml.open_nvml()
    no_gpu = "" if api and api.devices() else "not filled here: this machine has no CUDA device"
    each_trial = [(m, "trial", no_gpu if m.cuda else "") for m in metrics.METRICS.values()]
    return [
        {
            "name": m.id,
            "unit": m.unit,
            "better": m.better,
            "of": level,
            "summary": m.summary,
            "needs": m.needs,
            "here": here,
        }
        for m, level, here in (*each_trial, *((s, s.level, "") for s in metrics.SUMMARIES.values()))
    ]


def _claims(plugged: Registry | None, results: Path) -> list[dict[str, Any]]:
    """Every claim with its status: planned, tested, or why it is neither."""
    from harness.claims import plan_claims
    from harness.commands.claims_command import as_row, judged_claims
    from harness.config import load_ledger

    assert plugged is not None
    rows = map(as_row, judged_claims(plan_claims(load_ledger(), plugged, describe_machine()), results))
    shown = ("name", "status", "verdict", "reason", "metric", "workload", "arm", "baseline", "statement")
    return [{key: row[key] for key in shown} for row in rows]


def _runs(results: Path) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for record in open_store(results).trials():
        run = found.setdefault(
            record.spec_id, {"name": record.spec_id[:9], "trials": 0, "workloads": set(), "first": record.started_at}
        )
        run["trials"] += 1
        run["workloads"].add(record.workload)
    return list(found.values())


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={item}" for key, item in value.items())
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple, set)) else str(value)
