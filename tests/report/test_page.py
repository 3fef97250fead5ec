"""The whole page: well-formed, self-contained, in order, the same bytes every time, small, safe against its data."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import subprocess
import sys
import urllib.parse
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from harness.report import page

VOID = {"meta", "img", "source", "wbr", "br", "hr"}

ORDER = (
    *("answer", "counts", "threats", "comparisons", "forest", "matrix", "plane", "details", "variance", "method"),
    *("environment", "reproduce", "reading"),
)


@dataclass
class Parsed(HTMLParser):
    """A page as a strict reader sees it: every tag closed by its own, attributes kept."""

    tags: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    texts: list[tuple[str, str]] = field(default_factory=list)
    stack: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs), f"an attribute twice in {tag}"
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.stack.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.stack, f"</{tag}> without a start"
        assert self.stack.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append((self.stack[-1] if self.stack else "", data.strip()))

    def attributes(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.tags if name == tag]

    @property
    def text(self) -> str:
        return "\n".join(text for tag, text in self.texts if tag != "style")


def parse(html: str) -> Parsed:
    parsed = Parsed()
    parsed.feed(html)
    parsed.close()
    assert parsed.stack == []
    return parsed


@pytest.fixture(scope="module")
def varied_page(varied_html: str) -> Parsed:
    return parse(varied_html)


# ------------------------------------------------------------------------------------------------ structure


def test_sections_stand_in_their_order_and_each_is_reachable(varied_page):
    assert tuple(each["id"] for each in varied_page.attributes("section")) == ORDER
    ids = [attributes["id"] for _, attributes in varied_page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    targets = {each["href"] for each in varied_page.attributes("a")}
    assert {target.removeprefix("#") for target in targets} <= set(ids)


def test_a_section_without_data_leaves_no_trace(single_case):
    parsed = parse(page.render(*single_case.arguments()))
    found = [each["id"] for each in parsed.attributes("section")]
    assert "matrix" not in found
    assert "variance" not in found
    assert not re.search(r"across GPUs|claims ledger|to do|not yet implemented", parsed.text, re.I)


def test_the_page_is_semantic(varied_page):
    assert len(varied_page.attributes("h1")) == 1
    assert all(each.get("alt") for each in varied_page.attributes("img"))
    assert len(varied_page.attributes("caption")) == len(varied_page.attributes("table"))
    assert all(each.get("scope") in ("col", "row", "rowgroup") for each in varied_page.attributes("th"))
    assert varied_page.attributes("html")[0]["lang"] == "en"


def test_every_figure_stands_beside_a_table_of_its_numbers(varied_html):
    for section in re.findall(r"<figure>.*?</figure>(.*?)(?=<figure>|</section>)", varied_html, re.S):
        assert "<summary>The numbers of this figure</summary>" in section
        assert "<table" in section


def test_nothing_is_fetched_and_nothing_runs(varied_html, varied_page):
    assert not varied_page.attributes("script")
    assert not varied_page.attributes("link")
    assert not [attributes for _, attributes in varied_page.tags for name in attributes if name.startswith("on")]
    assert not [attributes for _, attributes in varied_page.tags if "style" in attributes]
    sources = [each["src"] for each in varied_page.attributes("img")]
    sources += [each["srcset"] for each in varied_page.attributes("source")]
    assert all(source.startswith("data:image/svg+xml,") for source in sources)
    assert all(each["href"].startswith("#") for each in varied_page.attributes("a"))
    outside = re.sub(r'data:image/svg\+xml,[^"]*', "", varied_html.partition("<body>")[2])
    assert not re.search(r"(?:https?:)?//[a-z]", outside)


def test_the_policy_comes_first_and_allows_just_our_style(varied_html, varied_page):
    head = [tag for tag, _ in varied_page.tags]
    assert head[:3] == ["html", "head", "meta"]
    policy = varied_page.attributes("meta")[0]
    assert policy["http-equiv"] == "Content-Security-Policy"
    style = re.search(r"<style>(.*?)</style>", varied_html, re.S)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style.group(1).encode()).digest()).decode()
    assert policy["content"].startswith(f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:")


def test_drawings_are_well_formed_and_bring_nothing_along(varied_page):
    names = set()
    for image in varied_page.attributes("img"):
        svg = urllib.parse.unquote(image["src"].removeprefix("data:image/svg+xml,"))
        root = ET.fromstring(svg)
        names |= {each.tag.split("}")[1] for each in root.iter()}
        assert "script" not in svg
        assert "http" not in svg.replace("http://www.w3.org/2000/svg", "")
        assert "20240" not in svg.replace(".", "")
        assert "matplotlib" not in svg
    assert "text" in names


# ------------------------------------------------------------------------------------------------ content


def test_the_answer_has_number_interval_hardware_and_blocks(varied_html):
    lead = re.search(r'<p class="lead">(.*?)</p>', varied_html, re.S)
    assert lead is not None
    sentence = re.sub(r"<[^>]+>", "", lead.group(1)).replace("\u00a0", " ")
    assert re.fullmatch(
        r"With amp_bf16\+channels_last\+torch_compile\(mode=max-autotune\), resnet50 trains 2\.3\d+ × as fast "
        r"as in plain PyTorch \(99\.49 % interval 2\.\d+ to 2\.\d+\) "
        r"on Intel Xeon Platinum 8481C \(2 cores\), over 6 blocks\.",
        sentence,
    )


def test_rows_that_were_not_run_say_why_in_words(varied_page, varied_html):
    assert "not applicable: the model has no convolution with a spatial extent" in varied_page.text
    assert "oom_host at the batch asked for" in varied_page.text
    assert "wrong numerics: the loss differs by 3.1 times the allowed error" in varied_page.text
    table = re.search(r'<section id="comparisons".*?</section>', varied_html, re.S)
    assert table is not None
    cells = re.findall(r"<td[^>]*>([^<]*)", table.group())
    assert len(cells) == 8 * (12 + 3)
    assert not {"", "0", "0.00", "nan", "None", "inf", "not known"} & set(cells)


def test_the_baseline_is_exactly_one(varied_html):
    rows = re.findall(r"<tr>(<th[^>]*>[^<]*<small>baseline</small>.*?)</tr>", varied_html)
    assert len(rows) == 3
    assert all(">1.00<" in row for row in rows)


def test_private_words_and_facts_do_not_reach_the_page(single_case, altered):
    case = altered(single_case, lambda each: replace(each, reason="on secret-host-17, /home/alice, 192.168.1.44"))
    case = replace(case, context=replace(case.context, private_words=("secret-host-17",)))
    html = page.render(*case.arguments())
    assert "secret-host-17" not in html
    assert "alice" not in html
    assert "192.168.1.44" not in html
    assert "9.10.2.21" in html


# ------------------------------------------------------------------------------------------------ bytes and size

ONCE = """
import hashlib, importlib.util, sys
spec = importlib.util.spec_from_file_location("report_cases", sys.argv[1])
cases = sys.modules["report_cases"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(cases)
from harness.report.page import render
print(hashlib.sha256(render(*cases.single().arguments()).encode()).hexdigest())
"""


def test_the_same_results_give_the_same_bytes_in_every_process(single_case):
    here = hashlib.sha256(page.render(*single_case.arguments()).encode()).hexdigest()
    again = hashlib.sha256(page.render(*single_case.arguments()).encode()).hexdigest()
    assert here == again
    command = [sys.executable, "-c", ONCE, str(Path(__file__).with_name("conftest.py"))]
    elsewhere = {
        subprocess.run(
            command, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONHASHSEED": seed, "TZ": zone}
        ).stdout.strip()
        for seed, zone in (("1", "UTC"), ("2", "Asia/Tokyo"))
    }
    assert elsewhere == {here}


def test_a_thousand_comparisons_fit_in_two_megabytes(thousand_case):
    html = page.render(*thousand_case.arguments())
    assert len(html.encode()) <= 2_000_000
    parsed = parse(html)
    shown = [each for each in parsed.attributes("details") if each.get("class") == "comparison"]
    assert 20 <= len(shown) <= 40
    assert f"These are the first {len(shown)} comparisons" in parsed.text
    rest = 1000 - len(shown)
    assert f"{rest}\u00a0further comparisons" in parsed.text
    assert html.count('<tr><th scope="row">') > 1000
    assert "6000\u00a0result files" in parsed.text


# ------------------------------------------------------------------------------------------------ hostile data

HOSTILE = (
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "{{ 7 * 7 }}{% raw %}",
    "evil\u202egnp.exe\u2066\x00\x1b[31m",
    "x" * 10_000,
    "=cmd|'/C calc'!A0",
    "$\\frac{1}{0}$ & a < b",
    "中文 \ud83d\ude00 🦄",
    "</style></title><svg onload=alert(1)>",
)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_only_text(single_case, name):
    def spoiled(value: Any) -> Any:
        return replace(value, workload=name, arm=name, reason=name, notes=(name,), axes={name: name})

    judgement = single_case.judgement
    judgement = replace(
        judgement,
        experiment=replace(judgement.experiment, question=name, workloads=(name,)),
        comparisons=tuple(spoiled(each) for each in judgement.comparisons),
        threats=(page_threat(name),),
    )
    text = name[:300]  # these may be long
    trials = tuple(replace_trial(each, name, text) for each in single_case.trials)
    context = replace(single_case.context, command=text, spec_text=text, generator=name, result_hashes={name: name})
    case = replace(single_case, judgement=judgement, trials=trials, context=context)
    html = page.render(*case.arguments())
    parsed = parse(html)
    assert not parsed.attributes("script")
    assert not [attributes for _, attributes in parsed.tags for each in attributes if each.startswith("on")]
    assert "svg" not in {tag for tag, _ in parsed.tags}
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x00\x1b]", html)
    assert "x" * 401 not in html
    assert "49" not in parsed.text.split("Made by")[-1]
    html.encode("utf-8")


def page_threat(text: str) -> Any:
    from harness.judge.types import Threat

    return Threat(severity=text, text=text)


def replace_trial(trial: Any, name: str, text: str) -> Any:
    changed = {"workload": name, "arm": name if trial.arm else "", "reason": name, "stderr_tail": text, "device": name}
    return replace(trial, **changed)
