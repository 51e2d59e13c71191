"""Average predictions over one column."""

from __future__ import annotations

import numpy as np
import pytest
from plot_data import labels

from sodgp import DeepGPClassifier, DeepGPRegressor, plots
from sodgp.errors import InputError

pd = pytest.importorskip("pandas")
RNG = np.random.default_rng(0)
N = 60
TABLE = pd.DataFrame(
    {
        "city": RNG.choice(["Rome", "Oslo", "Bern"], N),
        "size": RNG.normal(size=N),
        "when": pd.date_range("2020-03-01", periods=N, freq="9D"),
        "new": RNG.choice(["yes", "no"], N),
    }
)
Y = 3.0 * (TABLE["city"] == "Rome").to_numpy() + TABLE["size"].to_numpy()
QUICK = {"n_layers": 1, "subset_size": 20, "n_predict_samples": 5, "random_state": 0}


@pytest.fixture(scope="module")
def model():
    return DeepGPRegressor(max_iter=80, **QUICK).fit(TABLE, Y)


def test_levels_numbers_and_dates_have_the_values_of_the_rows(model):
    city = plots.partial_dependence(model, TABLE, "city")
    assert set(city.levels) == {"Rome", "Oslo", "Bern"}
    assert city.levels[int(city.mean[:, 0].argmax())] == "Rome"
    size = plots.partial_dependence(model, TABLE, "size")
    assert size.levels == ()
    assert np.polyfit(size.values, size.mean[:, 0], 1)[0] == pytest.approx(1.0, abs=0.4)
    assert (size.low <= size.mean).all()
    assert (size.mean <= size.high).all()
    assert len(plots.partial_dependence(model, TABLE, "when").values) == 20
    assert set(plots.partial_dependence(model, TABLE, "new").levels) == {"no", "yes"}


def test_it_is_the_average_of_predictions(model):
    found = plots.partial_dependence(model, TABLE[:5], "city")
    for place, level in enumerate(found.levels):
        mean = model.predict_distribution(TABLE[:5].assign(city=level), latent=True).mean.mean()
        assert found.mean[place, 0] == pytest.approx(mean)


def test_counts_and_classes(ax):
    counts = DeepGPRegressor(likelihood="poisson", max_iter=5, **QUICK).fit(TABLE, RNG.poisson(3, N))
    assert (plots.partial_dependence(counts, TABLE, 1).low > 0).all()
    labels_of = TABLE["city"].to_numpy()
    model = DeepGPClassifier(max_iter=5, **QUICK).fit(TABLE[["size", "new"]], labels_of)
    plots.plot_dependence(model, TABLE[["size", "new"]], "new", ax=ax)
    assert labels(ax) == ["P(Bern)", "P(Oslo)", "P(Rome)"]
    ax.clear()
    plots.plot_dependence(model, TABLE[["size", "new"]], "size", ax=ax)
    assert ax.get_ylabel() == "probability, average"


def test_bars_and_bands(model, ax):
    plots.plot_dependence(model, TABLE, "city", ax=ax)
    assert {text.get_text() for text in ax.get_yticklabels()} == {"Rome", "Oslo", "Bern"}
    with pytest.raises(InputError, match="no input of the model; it has city, size, when, new"):
        plots.plot_dependence(model, TABLE, "price", ax=ax)
