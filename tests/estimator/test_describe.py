"""What a fitted estimator says about itself."""

import json

import numpy as np
import pandas as pd

from sodgp import DeepGPRegressor
from sodgp.estimator.describe import describe, noise_std

X = np.random.default_rng(0).normal(size=(30, 2))


def fitted(X, y, **options):
    return DeepGPRegressor(max_iter=2, subset_size=8, random_state=0, **options).fit(X, y)


def test_names_of_frames_and_numbers_of_arrays():
    frame = pd.DataFrame(X, columns=["a", "b"])
    named = describe(fitted(frame, frame["a"].rename("t")))
    assert (named["inputs"], named["targets"], list(named["noise_std"])) == (["a", "b"], ["t"], ["t"])
    plain = describe(fitted(X, X))
    assert (plain["inputs"], plain["targets"]) == (["x0", "x1"], ["y0", "y1"])


def test_options_that_are_code_are_named_and_all_is_json():
    def kernel(dims):
        import gpytorch

        return gpytorch.kernels.RBFKernel(ard_num_dims=dims)

    about = json.loads(json.dumps(describe(fitted(X, X[:, 0], kernel=kernel))))
    assert about["kernel"] == about["options"]["kernel"] == "kernel"
    assert (about["rows"], about["subset_rows"], about["members"]) == (30, 8, 1)


def test_noise_is_in_the_units_of_the_targets():
    one, thousand = (noise_std(fitted(X, scale * X[:, 0]))[0] for scale in (1.0, 1000.0))
    np.testing.assert_allclose(thousand, 1000.0 * one, rtol=1e-6)
