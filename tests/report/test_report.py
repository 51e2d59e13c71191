"""Reports: what they find, what they say, and how a browser shows them."""

from __future__ import annotations

import dataclasses
import html
import json
import re
import shutil
import signal
import subprocess
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from cli_runner import run
from sklearn.exceptions import NotFittedError

from sodgp import DeepGPRegressor
from sodgp.errors import ConfigurationError, InputError
from sodgp.report import cross_validated, held_out, write_report
from sodgp.report.measures import outside_training
from sodgp.training.callbacks import EarlyStopping

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
NASTY = '<script>alert("x")</script> & "quoted" $a$ \u6e29\u5ea6'

rng = np.random.default_rng(0)
FRAME = pd.DataFrame(rng.normal(size=(240, 3)), columns=["a", NASTY, "count"])
FRAME["count"] = rng.integers(0, 5, size=240)
Y = 10 * FRAME["a"] + 2 * FRAME["count"] + rng.normal(size=240)


@pytest.fixture(scope="module")
def model():
    fitted = DeepGPRegressor(max_iter=150, subset_size=30, random_state=0).fit(FRAME[:140], Y[:140])
    fitted.target_names_ = [f"load {NASTY}"]
    return fitted


@pytest.fixture(scope="module")
def report(model):
    return held_out(model, FRAME[140:], Y[140:], title=f"Title {NASTY}", data_name=NASTY, model_name="m")


@pytest.fixture(scope="module")
def page(report):
    return report.html()


class Elements(HTMLParser):
    """Tags, addresses, identities and text of a page; open tags must be closed in order."""

    VOID = frozenset({"meta", "img", "br", "link", "input"})

    def __init__(self, text):
        super().__init__()
        self.tags, self.addresses, self.identities, self.words, self.open = [], [], [], [], []
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        for name, value in attributes:
            assert not name.startswith("on"), name
            if name in ("src", "href"):
                self.addresses.append(value)
            if name == "id":
                self.identities.append(value)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def figures(found):
    return [name.removeprefix("figure-") for name in found.identities if name.startswith("figure-")]


def test_the_page_is_whole_and_needs_nothing(page):
    found = Elements(page)
    assert "script" not in found.tags
    assert "link" not in found.tags
    assert all(address.startswith("data:image/svg+xml;base64,") for address in found.addresses)
    assert len(found.identities) == len(set(found.identities))
    names = ["coverage-0", "pit-0", "predictions-0", "residuals-0", "importance-0"]
    layers = ["relevance-1", "relevance-2", "relevance-3", "subset", "history", "hidden-1", "hidden-2"]
    assert figures(found) == names + layers
    for name in ("glance", "warnings", "scores", "relevance", "data", "model"):
        assert name in found.identities
    assert "@media print" in page
    assert "prefers-color-scheme: dark" in page


def test_text_from_the_data_is_escaped(page):
    assert "<script" not in page
    assert "alert(&quot;x&quot;)" in page
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


def test_importance_finds_the_inputs_that_count(report):
    a, nasty, count = report.importance.mean[:, 0]
    assert a > count > abs(nasty)


def texts(findings):
    return " ".join(finding.text for finding in findings)


def test_a_good_model_has_no_serious_warning(report):
    assert "bad" not in {finding.level for finding in report.findings}


def test_the_training_table_is_recognised(model):
    found = held_out(model, FRAME[:140], Y[:140]).findings
    assert found[0].level == "bad"
    assert "looks like the training table" in found[0].text
    mixed = held_out(model, FRAME[120:], Y[120:]).findings
    assert "shares rows with the training table" in texts(mixed)


def test_extrapolation_shift_and_outliers(model):
    X = FRAME[140:].copy()
    X["a"] += 8
    found = held_out(model, X, Y[140:] + 200)
    assert "rows are outside of what the model was trained on" in texts(found.findings)
    assert "the mean has moved by more than 0.5 standard deviations in a" in texts(found.findings)
    assert "more than five standard deviations off" in texts(found.findings)
    assert "extrapolated" in found.html()
    np.testing.assert_array_equal(found.outside, outside_training(model, X.to_numpy()))
    inside = outside_training(model, FRAME[:140].to_numpy())
    assert inside.mean() < 0.05


def test_overconfidence_timidity_and_worthlessness(model):
    noisy = held_out(model, FRAME[140:], Y[140:] + 4 * rng.normal(size=100))
    assert "too sure of itself" in texts(noisy.findings)
    assert noisy.findings[0].level == "bad"
    mean = model.predict(FRAME[140:])
    assert "too timid" in texts(held_out(model, FRAME[140:], mean).findings)
    shuffled = held_out(model, FRAME[140:], Y[140:].to_numpy()[::-1])
    assert "not better, for sure, than the mean" in texts(shuffled.findings)


def test_tails_that_are_too_heavy(model):
    """Errors of a few rows many times those of the rest: intervals right at 90 % and too wide in the middle."""
    mean, std = model.predict(FRAME[140:], return_std=True)
    error = np.where(np.arange(100) % 10 == 0, 3.0, 0.05) * std * np.where(np.arange(100) % 2, 1, -1)
    assert "wrong shape" in texts(held_out(model, FRAME[140:], mean + error).findings)


def test_noise_is_not_taken_for_a_rise():
    model = DeepGPRegressor(max_iter=5, random_state=0).fit(FRAME[["a"]][:60], Y[:60])
    noise = 10.0 * np.random.default_rng(0).standard_normal((20, 30))
    for bound in noise:
        model.history_.bound = list(bound)
        assert "still rising" not in texts(held_out(model, FRAME[["a"]][60:90], Y[60:90]).findings)
    model.history_.bound = list(noise[0] + 20.0 * np.arange(30))
    assert "still rising" in texts(held_out(model, FRAME[["a"]][60:90], Y[60:90]).findings)


def test_training_trouble_and_few_rows():
    X = FRAME[["a"]].assign(fixed=1.0)
    model = DeepGPRegressor(max_iter=5, random_state=0).fit(X[:20], Y[:20])
    model.history_.rollbacks, model.history_.stopped = 2, "interrupted"
    model.history_.bound = list(np.linspace(-100, 0, 20))
    found = texts(held_out(model, X[20:30], Y[20:30]).findings)
    for words in (
        "Training ran away 2 times",
        "was interrupted",
        "still rising",
        "trained on 20 rows with 2 inputs",
        "Only 10 rows were evaluated",
        "nothing was learned from fixed",
    ):
        assert words in found
    model.history_.stopped = "failed"
    assert "Training failed" in texts(held_out(model, X[20:30], Y[20:30]).findings)


@pytest.mark.parametrize("columns", [["a"], ["a", "b"]])
def test_one_row_and_a_few(columns):
    X = FRAME.rename(columns={NASTY: "b"})[columns]
    model = DeepGPRegressor(n_layers=2, max_iter=5, subset_size=10, random_state=0).fit(X[:60], Y[:60])
    for count, words in ((1, "Only 1 row was evaluated: the intervals say little."), (4, "Only 4 rows were evaluated")):
        found = held_out(model, X[60 : 60 + count], 100 + Y[60 : 60 + count])  # as wrong as can be, on too few rows
        assert words in texts(found.findings)
        assert "90 % intervals hold" not in texts(found.findings)
        assert "not better, for sure" not in texts(found.findings)
        assert "predictive density is worse" not in texts(found.findings)
        assert "nan to nan" not in found.html()
    found = texts(held_out(model, X[60:65], 100 + Y[60:65]).findings)
    assert "90 % intervals hold 0 %" in found
    assert "not better, for sure" in found or "predictive density is worse" in found


@pytest.mark.parametrize("inference", ["dsvi", "sghmc", "mean_field"])
def test_every_method_has_its_report(inference):
    options = {"n_posterior_samples": 4, "thinning": 2} if inference == "sghmc" else {}
    model = DeepGPRegressor(inference=inference, max_iter=3, subset_size=8, random_state=0, **options)
    model.fit(FRAME[:40], Y[:40])
    assert "figure-hidden-1" in Elements(held_out(model, FRAME[40:60], Y[40:60]).html()).identities


def test_one_input_one_layer_and_a_kernel_without_relevance():
    x = np.linspace(-1, 1, 60)[:, None]
    model = DeepGPRegressor(max_iter=5, n_layers=3, random_state=0).fit(x[::2], x[::2, 0])
    found = figures(Elements(held_out(model, x[1::2], x[1::2, 0]).html()))
    assert {"fit", "hidden-1", "hidden-2"} <= set(found)
    flat = DeepGPRegressor(max_iter=3, n_layers=1, kernel="rbf-iso").fit(FRAME[:40].to_numpy(), Y[:40])
    found = figures(Elements(held_out(flat, FRAME[40:80].to_numpy(), Y[40:80]).html()))
    assert "relevance-1" not in found
    assert not any(name.startswith("hidden") for name in found)


def test_many_targets_and_columns_are_cut():
    X, y = rng.normal(size=(60, 45)), rng.normal(size=(60, 6))
    model = DeepGPRegressor(max_iter=1, subset_size=5, random_state=0).fit(X[:40], y[:40])
    found = Elements(held_out(model, X[40:], y[40:]).html())
    assert "coverage-3" in figures(found)
    assert "coverage-4" not in figures(found)
    assert "11 more columns are left out" in "".join(found.words)
    assert {f"y{i}" for i in range(6)} <= set(found.words)


def test_cross_validation_covers_every_row_once():
    model = DeepGPRegressor(max_iter=30, subset_size=15, random_state=0).fit(FRAME[:60], Y[:60])
    told = []
    found = cross_validated(
        model, FRAME[:60], Y[:60].to_numpy(), 3, begin=lambda name: told.append(name) or (lambda state: None)
    )
    np.testing.assert_array_equal(found.evaluation.y[:, 0], Y[:60])
    assert told == ["fold 1 of 3", "fold 2 of 3", "fold 3 of 3"]
    assert (found.folds, found.fold_steps) == (3, (30, 30, 30))
    assert "looks like" not in texts(found.findings)
    assert "use cross-validation" not in texts(found.findings)
    text = "".join(Elements(found.html()).words)
    assert "3-fold cross-validation" in text
    assert "have its options, and were trained for 30, 30, 30 steps." in text
    # Held-out errors, not those of rows that were seen.
    assert found.evaluation.scores()["rmse"].value > np.sqrt(np.mean((model.predict(FRAME[:60]) - Y[:60]) ** 2))


def test_folds_stop_early_as_the_model_did():
    options = {"max_iter": 400, "learning_rate": 1e-9, "subset_size": 15, "n_layers": 1, "random_state": 0}
    stopping = EarlyStopping(patience=100, min_delta=1.0)
    model = DeepGPRegressor(callbacks=[stopping], **options).fit(FRAME[:60], Y[:60])
    best = stopping.best
    assert max(cross_validated(model, FRAME[:60], Y[:60], 2).fold_steps) < 400
    assert stopping.best == best


def test_options_without_a_place_in_a_file_are_named_in_a_report():
    model = DeepGPRegressor(max_iter=5, schedule=lambda step: 1.0, random_state=0).fit(FRAME[:60], Y[:60])
    assert held_out(model, FRAME[60:], Y[60:]).about["options"]["schedule"] == "<lambda>"  # and nothing warns


def test_ctrl_c_in_a_fold_ends_cross_validation(model):
    told = []

    def begin(name):
        told.append(name)
        return lambda state: signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        cross_validated(model, FRAME[:60], Y[:60], 3, begin=begin)
    assert told == ["fold 1 of 3"]


def test_folds_train_on_what_the_model_was_trained_on(monkeypatch):
    """Of 500 rows the default trains for prediction; the 250 of a fold alone would be trained on the bound."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(500, 2)), rng.normal(size=500)
    model = DeepGPRegressor(max_iter=2, subset_size=5, random_state=0).fit(X, y)
    fitted = []
    honest = DeepGPRegressor.fit
    monkeypatch.setattr(DeepGPRegressor, "fit", lambda self, *a: fitted.append(self) or honest(self, *a))
    found = cross_validated(model, X, y, 2)
    assert [member._method.predictive_weight for member in fitted] == [1.0, 1.0]
    assert found.about["objective"] == "predictive"
    assert any("objective" in words for words in Elements(found.html()).words)


@pytest.mark.parametrize("cv", [1, 31, True, 2.5])
def test_folds_that_make_no_sense(model, cv):
    with pytest.raises(ConfigurationError, match="cv must be an integer from 2 to half of the 60 rows"):
        cross_validated(model, FRAME[:60], Y[:60], cv)


def test_the_file_is_written_whole_or_not_at_all(model, tmp_path):
    path = tmp_path / "new" / "report.html"
    write_report(path, model, FRAME[140:], Y[140:])
    text = path.read_text(encoding="utf-8")
    assert text.endswith("</html>\n")
    with pytest.raises(InputError):
        write_report(path, model, FRAME[140:], Y[140:150])
    assert path.read_text(encoding="utf-8") == text
    assert [entry.name for entry in path.parent.iterdir()] == ["report.html"]


def test_the_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = FRAME.rename(columns={NASTY: "b"}).assign(y=Y)
    table[:60].to_csv("train.csv", index=False)
    table[60:120].to_csv("test.csv", index=False)

    def go(*arguments, code=0):
        result = run(*arguments)
        assert result.exit_code == code, result.output + repr(result.exception)
        return result

    go("fit", "train.csv", "--target", "y", "-o", "m", "--max-iter", "5", "--subset-size", "10", "--quiet")
    result = go("report", "m", "test.csv", "-o", "r.html", "--title", "A title")
    assert result.stderr.endswith("Report on 60 rows written to r.html\n")
    assert "<h1>A title</h1>" in (tmp_path / "r.html").read_text(encoding="utf-8")
    found = json.loads(go("report", "m", "train.csv", "-o", "cv.html", "--cv", "2", "--json").stdout)
    assert (found["written_to"], found["rows"]) == ("cv.html", 60)
    assert {"level", "text", "fix"} == set(found["findings"][0])
    assert "must end in .html" in go("report", "m", "test.csv", "-o", "r.pdf", code=2).stderr
    assert "no column 'z'" in go("report", "m", "test.csv", "--target", "z", code=1).stderr


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
        assert answer["images"] == answer["shown"] == 12
        assert answer["blank"] == 0
        assert answer["alone"] == 1  # the probe itself


def test_findings_are_plain_data(report):
    for finding in report.findings:
        assert set(dataclasses.asdict(finding)) == {"level", "text", "fix"}
        assert finding.text.endswith((".", ")"))


def test_what_cross_validation_refuses(model):
    with pytest.raises(NotFittedError):
        cross_validated(DeepGPRegressor(), FRAME, Y, cv=2)
    with pytest.raises(InputError, match="X has 240 rows"):
        cross_validated(model, FRAME, Y[:40], cv=2)
    known = DeepGPRegressor(max_iter=2, subset_size=10, random_state=0).fit(FRAME, Y, noise_variance=0.25)
    with pytest.raises(ConfigurationError, match="noise_variance, which the folds would lack"):
        cross_validated(known, FRAME, Y, cv=2)
