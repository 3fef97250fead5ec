"""What must never reach a report."""

from __future__ import annotations

import json

import pytest

from harness.judge.types import Threat
from harness.record import Fact, TrialRecord
from harness.report.privacy import Filter, printable


@pytest.mark.parametrize(
    ("text", "public"),
    [
        ("File /home/alice/work/a.py", "File ~/work/a.py"),
        ("/root/.cache/torch", "~/.cache/torch"),
        ("/Users/alice/x and C:\\Users\\alice\\y", "~/x and ~\\y"),
        ("https://bob:s3cret@example.org/x", "https://example.org/x"),
        ("https://example.org/x?access_token=abc123&n=1", "https://example.org/x?access_token=[removed]&n=1"),
        ("export HF_TOKEN=hf_abcdefghijklmnopqrstuvwx", "export HF_TOKEN=[removed]"),
        ("key ghp_abcdefghijklmnopqrstuvwxyz0123456789 used", "key [removed] used"),
        ("Authorization: Bearer abcdef0123456789", "Authorization: Bearer [removed]"),
        ("connect to 10.1.2.3:29500 failed", "connect to [address]:29500 failed"),
        ("at fe80::1ff:fe23:4567:890a now", "at [address] now"),
        ("mac 0a:1b:2c:3d:4e:5f", "mac [address]"),
        ("mail alice@example.org", "mail [e-mail]"),
        ("alice@node17:~$ make bench", "[removed]:~$ make bench"),
        ("on node-17.cluster and Node-17", "on [private].cluster and [private]"),
    ],
)
def test_private_things_are_taken_out_of_any_text(text, public):
    assert Filter(["node-17"]).text(text) == public


@pytest.mark.parametrize(
    "text",
    [
        "amp_bf16+torch_compile(mode=max-autotune)",
        "cuDNN version 9.10.2.21",
        "nvidia-cudnn-cu12==9.10.2.21",
        "2026-03-11T09:00:07.000000Z",
        "at::native::add and std::vector",
        "tokens/s: 128, tokens=128",
        "python 3.11.7 on 00000000:3B:00.0",
        "root needs a workload",
        "0198c0de-0000-7000-8000-00000000000a",
    ],
)
def test_ordinary_texts_stay_as_they_are(text):
    assert Filter(["root", "ab"]).text(text) == text


def test_what_cannot_be_seen_or_turns_the_text_around_is_dropped():
    assert printable("a\u202eb\u200bc\x00d\x1b[31me\ud800f\u2066g\ufeff") == "abcd[31mefg"
    assert printable("tab\tand\nline, é, 中, ▲") == "tab\tand\nline, é, 中, ▲"


def test_records_are_cleaned_to_any_depth_and_json_after_it_is_decoded():
    door = Filter(["node-17"])
    trial = door.clean(
        TrialRecord(reason="died on node-17", params_json='{"a": "node-17"}', stderr_tail="/home/al/x\n" * 100)
    )
    assert trial.reason == "died on [private]"
    assert trial.params_json == '{"a": "node-17"}'
    assert trial.stderr_tail.count("~/x") == 100
    assert door.clean({"node-17": [Threat(severity="note", text="/home/al")]}) == {
        "[private]": (Threat(severity="note", text="~"),)
    }
    assert door.clean(json.loads('"a\\u202eb"')) == "ab"


def test_facts_that_name_a_machine_or_a_person_are_left_out_and_versions_are_kept():
    facts = [
        Fact(path="system.hostname", value="node-17"),
        Fact(path="env.USER", value="alice"),
        Fact(path="gpu.0.uuid", value="GPU-1"),
        Fact(path="package.nvidia-curand", value="10.3.9.90"),
        Fact(path="network.rendezvous", value="10.3.9.90"),
        Fact(path="host.memory", value="16"),
    ]
    assert [(fact.path, fact.value) for fact in Filter().facts(facts)] == [
        ("package.nvidia-curand", "10.3.9.90"),
        ("network.rendezvous", "[address]"),
        ("host.memory", "16"),
    ]
