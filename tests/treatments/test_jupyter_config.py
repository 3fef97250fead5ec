"""JupyterLab's configuration: found by Jupyter through its search path, and believed only as the server reports it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.spec import ProcessChange
from harness.treatments import jupyter_config


def test_the_configuration_lies_where_jupyter_is_told_to_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    first, second = (jupyter_config.process(ProcessChange(), None) for _ in range(2))
    assert first == second, "the same folder for every trial"
    folder = Path(first.env["JUPYTER_CONFIG_PATH"])
    assert json.loads((folder / jupyter_config.FILE).read_text()) == jupyter_config.SETTINGS


@pytest.mark.parametrize(
    ("printed", "settings"), [('{"LabApp": {}}', {"LabApp": {}}), ("", {}), ("[1]", {}), ("no", {})]
)
def test_what_the_server_prints_is_no_setting_unless_it_says_so(printed: str, settings: dict[str, object]) -> None:
    assert jupyter_config.in_force(printed) == settings
