"""The page: whole, escaped, and shown by a browser."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess

import numpy as np
import pytest
from report_data import FRAME, NASTY, Elements, figures

from sodgp import DeepGPRegressor
from sodgp.report import held_out

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def test_the_page_is_whole_and_needs_nothing(page):
    found = Elements(page)
    assert "script" not in found.tags
    assert "link" not in found.tags
    assert all(address.startswith("data:image/svg+xml;base64,") for address in found.addresses)
    assert len(found.identities) == len(set(found.identities))
    names = ["coverage-0", "pit-0", "predictions-0", "residuals-0", "spread-0", "importance-0"]
    names += [f"dependence-0-{i}" for i in range(sum("dependence" in name for name in figures(found)))]
    layers = ["relevance-1", "relevance-2", "relevance-3", "subset", "history", "hidden-1", "hidden-2"]
    assert figures(found) == names + layers
    for name in ("glance", "warnings", "scores", "relevance", "data", "model"):
        assert name in found.identities
    assert "@media print" in page
    assert "prefers-color-scheme: dark" in page


def test_text_from_the_data_is_escaped(page):
    assert "<script" not in page
    assert "alert(&#34;x&#34;)" in page
    text = "".join(Elements(page).words)
    assert NASTY in text
    assert f"Title {NASTY}" in html.unescape(re.search("<title>(.*)</title>", page).group(1))


def test_numbers_of_the_page_are_those_of_the_evaluation(report, page):
    text = "".join(Elements(page).words)
    score = report.evaluation.scores()["rmse"]
    assert f"{score.value:.3f}" in text or f"{score.value:#.4g}" in text
    worst = report.worst()
    assert report.evaluation.log_prob[worst[0], 0] == report.evaluation.log_prob.min()
    assert len(worst) == 10
    column = next(c for c in report.columns if c.name == "a")
    assert column.mean == pytest.approx(FRAME["a"][140:].mean())
    assert column.shift == pytest.approx(
        (FRAME["a"][140:].mean() - FRAME["a"][:140].mean()) / FRAME["a"][:140].std(ddof=0)
    )
    assert "100 rows, 3 inputs" in text


def test_many_targets_and_columns_are_cut():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 45)), rng.normal(size=(60, 6))
    model = DeepGPRegressor(max_iter=1, subset_size=5, random_state=0).fit(X[:40], y[:40])
    found = Elements(held_out(model, X[40:], y[40:]).html())
    assert "coverage-3" in figures(found)
    assert "coverage-4" not in figures(found)
    assert "11 more columns are left out" in "".join(found.words)
    assert {f"y{i}" for i in range(6)} <= set(found.words)


PROBE = """
<script>
addEventListener("error", event => report("error: " + event.message));
addEventListener("load", () => {
  const wide = [...document.querySelectorAll("body *")].filter(
    element => element.getBoundingClientRect().right > innerWidth + 1 && !element.closest(".wide"));
  const blank = [...document.images].filter(image => !image.complete || image.naturalWidth < 100);
  report(JSON.stringify({
    width: innerWidth, scroll: document.documentElement.scrollWidth, wide: wide.map(e => e.tagName + "." + e.className),
    images: document.images.length, blank: blank.length, alone: document.scripts.length,
    shown: [...document.images].filter(image => image.getBoundingClientRect().width > 250).length,
  }));
});
function report(text) { parent.postMessage(text, "*"); }
</script>
"""
FRAMES = """<!DOCTYPE html><body>
<script>addEventListener("message", e => {
  const line = document.createElement("pre"); line.textContent = e.data; document.body.append(line); });</script>
<iframe src="probe.html" width="360" height="800"></iframe><iframe src="probe.html" width="1200" height="800"></iframe>
</body>"""


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
def test_a_browser_shows_every_figure_on_a_phone_and_on_a_desk(page, tmp_path):
    (tmp_path / "probe.html").write_text(page.replace("<head>", f"<head>{PROBE}", 1), encoding="utf-8")
    (tmp_path / "frames.html").write_text(FRAMES, encoding="utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--window-size=1300,1000"]
    options += [f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=8000", "--dump-dom"]
    result = subprocess.run(
        [CHROMIUM, *options, (tmp_path / "frames.html").as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "CONSOLE" not in result.stderr, result.stderr
    answers = [html.unescape(text) for text in re.findall("<pre>(.*?)</pre>", result.stdout)]
    found = sorted((json.loads(answer) for answer in answers), key=lambda answer: answer["width"])
    assert [answer["width"] for answer in found] == [360, 1200]
    for answer in found:
        assert answer["scroll"] <= answer["width"], answer
        assert answer["wide"] == []
        assert answer["images"] == answer["shown"] == len(figures(Elements(page)))
        assert answer["blank"] == 0
        assert answer["alone"] == 1  # the probe itself
