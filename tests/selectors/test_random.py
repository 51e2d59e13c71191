from __future__ import annotations

import torch
from scipy.stats import chisquare

from sodgp.selectors.random import Random


def test_every_row_is_as_likely() -> None:
    X = torch.arange(9.0).double()[:, None]
    source = torch.Generator().manual_seed(0)
    counts = torch.zeros(9)
    for _ in range(900):
        counts[Random().select(X, None, 4, None, source)] += 1
    assert chisquare(counts.numpy()).pvalue > 0.01


def test_a_value_is_not_drawn_twice_while_others_are_left() -> None:
    X = torch.cat([torch.zeros(500), torch.arange(1.0, 6.0)]).double()[:, None]
    indices = Random().select(X, None, 6, None, torch.Generator().manual_seed(0))
    assert indices[1:].tolist() == [500, 501, 502, 503, 504]


def test_rows_are_drawn_in_proportion_to_their_weights():
    X = torch.arange(4, dtype=torch.float64)[:, None]
    weight = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64)
    drawn = [
        int(Random().select_weighted(X, None, 1, None, torch.Generator().manual_seed(seed), weight))
        for seed in range(2000)
    ]
    shares = torch.bincount(torch.tensor(drawn), minlength=4) / 2000
    assert (shares - weight / 10.0).abs().max() < 0.04
    assert Random().select_weighted(X, None, 4, None, torch.Generator(), weight).tolist() == [0, 1, 2, 3]
