"""What is printed of a history, a state of training and an evaluation is a few lines."""

import numpy as np

from sodgp import DeepGPRegressor
from sodgp.evaluation import evaluate
from sodgp.training.callbacks import EarlyStopping
from sodgp.training.history import History

X = np.linspace(-1, 1, 30)[:, None]


def test_a_function_alone_is_a_callback(capsys):
    model = DeepGPRegressor(n_layers=1, max_iter=60, random_state=0, callbacks=print, verbose=False).fit(X, X[:, 0])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["step 1 of 60", "step 50 of 60", "step 60 of 60"]
    assert f"bound {model.history_.bound[-1]:.6g}" in lines[-1]
    stopping = EarlyStopping("bound", patience=1)
    assert DeepGPRegressor(n_layers=1, max_iter=5, callbacks=stopping).fit(X, X[:, 0]).n_iter_ == 5


def test_a_history_is_a_few_lines():
    model = DeepGPRegressor(n_layers=1, max_iter=3, validation_fraction=0.3, random_state=0).fit(X, X[:, 0])
    first, second, third = repr(model.history_).splitlines()
    assert "up to step 3" in first
    assert f"-> {model.history_.bound[-1]:.6g}" in second
    assert third.startswith("  validation ")
    assert repr(History()) == "History(nothing was logged)"


def test_an_evaluation_is_a_line_for_each_target():
    y = np.column_stack([X[:, 0], X[:, 0] ** 2])
    model = DeepGPRegressor(n_layers=1, max_iter=3, random_state=0).fit(X, y)
    found = evaluate(model, X, y)
    lines = repr(found).splitlines()
    assert lines[0] == "Evaluation(30 rows)"
    assert lines[1].startswith(f"  y0: RMSE {found.scores(0, n_bootstrap=0)['rmse'].value:.4g}, R² ")
    assert len(lines) == 3
