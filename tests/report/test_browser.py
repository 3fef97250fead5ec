"""The page in a real browser, without a network: no complaint, no request, and room enough on every screen."""

from __future__ import annotations

import pytest

from harness.report import page


@pytest.fixture(scope="module")
def report(varied_html, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(varied_html, encoding="utf-8")
    return path


UNFOLD = "document.querySelectorAll('details').forEach(each => each.open = true)"


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_overflows_and_nothing_complains(browser, report, width, scheme):
    browser.open(report, width, scheme=scheme)
    assert browser.complaints() == []
    assert browser.requests() == [report.as_uri()]
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    browser.evaluate(UNFOLD)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.evaluate("[...document.images].every(each => each.complete && each.naturalWidth > 0)")
    assert browser.complaints() == []


def test_the_style_applies_and_follows_the_scheme(browser, report):
    colours = {}
    for scheme in ("light", "dark"):
        browser.open(report, scheme=scheme)
        colours[scheme] = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    assert colours == {"light": "rgb(255, 255, 255)", "dark": "rgb(22, 27, 33)"}


def test_text_has_contrast_enough_in_both_schemes(browser, report):
    for scheme in ("light", "dark"):
        browser.open(report, scheme=scheme)
        browser.evaluate(UNFOLD)
        assert browser.evaluate(WORST_CONTRAST) >= 4.5, scheme


def test_long_tables_scroll_in_their_own_box(browser, report):
    browser.open(report, 320)
    boxes = browser.evaluate(
        "[...document.querySelectorAll('.scroll')].map(each => [each.clientWidth, each.scrollWidth])"
    )
    assert max(client for client, _ in boxes) <= 320
    assert max(whole for _, whole in boxes) > 320


def test_narrow_screens_get_the_narrow_forest_plot(browser, report):
    found = []
    for width in (320, 1280):
        browser.open(report, width)
        found.append(browser.evaluate("document.querySelector('#forest img').currentSrc.length"))
    assert found[0] != found[1]


def test_hostile_names_stay_inside_their_places(browser, single_case, altered, tmp_path):
    from dataclasses import replace

    name = "<script>document.title='owned'</script>" + "x" * 3000 + "\u202e"
    case = altered(single_case, lambda each: replace(each, workload=name, arm=name, reason=name))
    path = tmp_path / "hostile.html"
    path.write_text(page.render(*case.arguments()), encoding="utf-8")
    browser.open(path, 320)
    browser.evaluate(UNFOLD)
    assert browser.evaluate("document.title") != "owned"
    assert browser.evaluate("document.documentElement.scrollWidth") <= 320
    assert browser.complaints() == []


def test_a_link_from_the_table_unfolds_its_comparison(browser, report):
    browser.open(report)
    folded = "[...document.querySelectorAll('details.comparison')].map(each => each.open)"
    assert not any(browser.evaluate(folded))
    browser.evaluate("document.querySelectorAll('table.comparisons a')[1].click()")
    assert browser.evaluate(f"new Promise(done => setTimeout(() => done({folded}), 100))")[:3] == [False, True, False]


def test_it_prints(browser, report):
    browser.open(report)
    pdf = browser.call("Page.printToPDF", {"paperWidth": 8.27, "paperHeight": 11.69})["data"]
    assert pdf.startswith("JVBERi0")  # %PDF-


WORST_CONTRAST = """
(() => {
  const channels = text => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, index) => sum + v * [.2126, .7152, .0722][index], 0);
  const behind = element => {
    for (let each = element; each; each = each.parentElement) {
      const colour = channels(getComputedStyle(each).backgroundColor);
      if (colour.length < 4 || colour[3] === 1) return colour;
    }
  };
  let worst = 21;
  for (const element of document.body.querySelectorAll('*')) {
    if (![...element.childNodes].some(node => node.nodeType === 3 && node.textContent.trim())) continue;
    const [one, other] = [light(channels(getComputedStyle(element).color)), light(behind(element))];
    worst = Math.min(worst, (Math.max(one, other) + .05) / (Math.min(one, other) + .05));
  }
  return worst;
})()
"""
