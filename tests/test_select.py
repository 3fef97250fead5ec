"""The latest work of each arm is judged; what it superseded is not."""

from harness.record import TrialRecord
from harness.select import latest_work


def row(trial_id: str, arm: str = "", code: str = "k1", env: str = "e1", hardware: str = "h1") -> TrialRecord:
    return TrialRecord(trial_id=trial_id, arm=arm, code_id=code, base_env_id=env, hardware_id=hardware)


def test_only_the_code_and_environment_measured_last_count():
    rows = [row("1"), row("2", code="k2"), row("3", code="k2"), row("4", env="e2", code="k2")]
    assert [record.trial_id for record in latest_work(rows)] == ["4"]


def test_arms_and_hardware_classes_are_told_apart():
    rows = [row("1", code="k1"), row("2", arm="a", code="k9"), row("3", hardware="h2", code="k5")]
    assert latest_work(rows) == rows


def test_the_order_of_the_rows_does_not_matter():
    rows = [row("2", code="k2"), row("1", code="k1")]
    assert [record.trial_id for record in latest_work(rows)] == ["2"]
