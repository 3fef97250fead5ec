"""What it takes to check or repeat the results: the command, the experiment and its hash, the files and theirs."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from harness.report.data import ReportData
from harness.report.format import count
from harness.report.view import Panel, Table, table

LISTED = 40
"""Up to so many result files are listed with their hashes."""


@dataclass(frozen=True)
class Reproduce:
    """The section."""

    command: str
    spec_text: str
    identities: Table
    files_line: str
    files: Table


def panel(data: ReportData) -> Panel:
    """The command, the experiment as it was asked, and the hashes."""
    context = data.context
    hashes = sorted(context.result_hashes.items())
    together = hashlib.sha256("".join(f"{digest}  {name}\n" for name, digest in hashes).encode()).hexdigest()
    theirs = "its hash" if len(hashes) == 1 else "their hashes"
    first = f"; the first {LISTED} below" if len(hashes) > LISTED else ""
    ids = {
        name: sorted({getattr(each, name) for each in data.timing_trials} - {""})
        for name in ("code_id", "base_env_id", "hardware_id")
    }
    rows = [("experiment (spec_id)", data.judgement.spec_id)]
    if context.spec_hash != data.judgement.spec_id:
        rows.append(("hash of the experiment file", context.spec_hash))
    rows += [
        (name, ", ".join(values[:6]) + (" and more" if len(values) > 6 else ""))
        for name, values in ids.items()
        if values
    ]
    rows.append(("all result files together (SHA-256 of their sorted list)", together))
    rows.append(("made by", context.generator))
    content = Reproduce(
        command=context.command,
        spec_text=context.spec_text,
        identities=table("Identities", "name | value", rows, "hashes"),
        files_line=f"{count(len(hashes), 'result file')} and {theirs}{first}",
        files=table("Result files", "file | SHA-256", hashes[:LISTED], "hashes"),
    )
    return Panel("reproduce", "Reproduce it", "reproduce.html", content)
