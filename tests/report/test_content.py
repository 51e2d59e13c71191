"""Reports on held-out rows and by cross-validation, and their file."""

from __future__ import annotations

import json
import signal

import numpy as np
import pytest
from cli_runner import run
from gpytorch.kernels import RBFKernel
from report_data import FRAME, NASTY, Elements, Y, texts
from sklearn.exceptions import NotFittedError

from sodgp import DeepGPRegressor
from sodgp.errors import ConfigurationError, InputError
from sodgp.report import cross_validated, held_out, write_report
from sodgp.training.callbacks import EarlyStopping


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


def test_folds_in_many_processes_have_the_same_bits():
    model, shown = DeepGPRegressor(max_iter=20, subset_size=15, random_state=0).fit(FRAME[:60], Y[:60]), []
    one = cross_validated(model, FRAME[:60], Y[:60], 2)
    two = cross_validated(model, FRAME[:60], Y[:60], 2, n_jobs=2, begin=lambda name: shown.append(name) or shown.append)
    np.testing.assert_array_equal(two.evaluation.log_prob, one.evaluation.log_prob)
    np.testing.assert_array_equal(two.importance.mean, one.importance.mean)
    np.testing.assert_array_equal(two.outside, one.outside)
    assert [name if isinstance(name, str) else name.iteration for name in shown] == [
        "fold 1 of 2",
        20,
        "fold 2 of 2",
        20,
    ]
    with pytest.raises(ConfigurationError, match="n_jobs must be"):
        cross_validated(model, FRAME[:60], Y[:60], 2, n_jobs=0)


def test_folds_stop_early_as_the_model_did():
    options = {"max_iter": 400, "learning_rate": 1e-9, "subset_size": 15, "n_layers": 1, "random_state": 0}
    stopping = EarlyStopping(patience=100, min_delta=1.0)
    model = DeepGPRegressor(callbacks=[stopping], **options).fit(FRAME[:60], Y[:60])
    best = stopping.best
    assert max(cross_validated(model, FRAME[:60], Y[:60], 2).fold_steps) < 400
    assert stopping.best == best


def test_options_without_a_place_in_a_file_are_named_in_a_report():
    model = DeepGPRegressor(max_iter=5, kernel=lambda dims: RBFKernel(ard_num_dims=dims), random_state=0).fit(
        FRAME[:60], Y[:60]
    )
    assert held_out(model, FRAME[60:], Y[60:]).about["options"]["kernel"] == "<lambda>"  # and nothing warns


def test_ctrl_c_in_a_fold_ends_cross_validation(model):
    told = []

    def begin(name):
        told.append(name)
        return lambda state: signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        cross_validated(model, FRAME[:60], Y[:60], 3, begin=begin)
    assert told == ["fold 1 of 3"]


def test_folds_train_on_what_the_model_was_trained_on(monkeypatch):
    """Of 500 rows the default predicts each from all others; the 250 of a fold alone would be trained on a bound."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(500, 2)), rng.normal(size=500)
    model = DeepGPRegressor(max_iter=2, subset_size=5, random_state=0).fit(X, y)
    fitted = []
    honest = DeepGPRegressor.fit
    monkeypatch.setattr(DeepGPRegressor, "fit", lambda self, *a: fitted.append(self) or honest(self, *a))
    found = cross_validated(model, X, y, 2)
    assert [member.objective_ for member in fitted] == ["leave_one_out", "leave_one_out"]
    assert found.about["objective"] == "leave_one_out"
    assert any("objective" in words for words in Elements(found.html()).words)


def test_folds_have_as_many_layers_as_the_model(monkeypatch):
    """Of 170 rows a model has two layers by default; of the 85 of a fold alone it would have three."""
    fitted = []
    honest = DeepGPRegressor.fit
    monkeypatch.setattr(DeepGPRegressor, "fit", lambda self, *a: fitted.append(self) or honest(self, *a))
    model = DeepGPRegressor(max_iter=2, subset_size=5, random_state=0).fit(FRAME[:170], Y[:170])
    cross_validated(model, FRAME[:170], Y[:170], 2)
    assert [len(each.model_.layers) for each in fitted] == [2, 2, 2]


@pytest.mark.parametrize("cv", [1, 31, True, 2.5])
def test_folds_that_make_no_sense(model, cv):
    with pytest.raises(ConfigurationError, match="cv must be an integer from 2 to half of the 60 rows"):
        cross_validated(model, FRAME[:60], Y[:60], cv)


def test_what_cross_validation_refuses(model):
    with pytest.raises(NotFittedError):
        cross_validated(DeepGPRegressor(), FRAME, Y, cv=2)
    with pytest.raises(InputError, match="X has 240 rows"):
        cross_validated(model, FRAME, Y[:40], cv=2)
    known = DeepGPRegressor(max_iter=2, subset_size=10, random_state=0).fit(FRAME, Y, noise_variance=0.25)
    with pytest.raises(ConfigurationError, match="noise_variance, which the folds would lack"):
        cross_validated(known, FRAME, Y, cv=2)


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
