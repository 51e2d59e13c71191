"""Where standard normal numbers come from."""

import math

import pytest
import torch

from sodgp.linalg.draws import Draws, FreshDraws, PositionDraws, SharedDraws, TapeDraws


def generator(seed):
    return torch.Generator().manual_seed(seed)


def test_both_sources_keep_the_protocol():
    assert isinstance(FreshDraws(generator(0), 3), Draws)
    assert isinstance(SharedDraws(0, 3, dtype=torch.float64), Draws)


def test_fresh_numbers_are_standard_normal_and_new_at_every_call():
    draws = FreshDraws(generator(0), 100)
    first, second = draws.subset(20, 5), draws.rest(20, 5)
    assert first.shape == second.shape == (100, 20, 5)
    assert first.dtype == torch.float64
    for numbers in (first, second):
        assert abs(float(numbers.mean())) < 4 / math.sqrt(numbers.numel())
        assert abs(float(numbers.square().mean()) - 1) < 4 * math.sqrt(2 / numbers.numel())
    assert abs(float((first * second).mean())) < 4 / math.sqrt(first.numel())


def test_the_same_seed_gives_the_same_bits():
    assert torch.equal(FreshDraws(generator(3), 4).subset(5, 2), FreshDraws(generator(3), 4).subset(5, 2))
    assert not torch.equal(FreshDraws(generator(3), 4).subset(5, 2), FreshDraws(generator(4), 4).subset(5, 2))


def test_a_replicate_sees_the_numbers_that_it_sees_alone():
    together = FreshDraws([generator(1), generator(2)], 4)
    alone = [FreshDraws(generator(seed), 4) for seed in (1, 2)]
    for rows, width in ((5, 2), (3, 1)):
        numbers = together.subset(rows, width)
        assert numbers.shape == (2, 4, rows, width)
        assert torch.equal(numbers, torch.stack([draws.subset(rows, width) for draws in alone]))
        assert torch.equal(together.rest(rows, width), torch.stack([draws.rest(rows, width) for draws in alone]))


def test_the_global_seed_is_neither_read_nor_set():
    before = torch.get_rng_state()
    FreshDraws(generator(0), 3).subset(4, 2)
    shared = SharedDraws(0, 3, dtype=torch.float64)
    shared.subset(4, 2), shared.rest(4, 2)
    assert torch.equal(torch.get_rng_state(), before)


def test_shared_residuals_are_one_number_for_all_rows():
    draws = SharedDraws(0, 6, dtype=torch.float64)
    assert draws.subset(4, 2).shape == (6, 4, 2)
    assert draws.rest(100, 2).shape == (6, 1, 2)


def test_shared_residuals_do_not_depend_on_the_rows_or_the_subset():
    a, b = SharedDraws(0, 6, dtype=torch.float64), SharedDraws(0, 6, dtype=torch.float64)
    a.subset(4, 2), b.subset(40, 2), b.subset(40, 2)
    assert torch.equal(a.rest(100, 2), b.rest(7, 2))
    assert torch.equal(a.rest(1, 1), b.rest(3, 1))


def test_shared_layers_and_streams_get_different_numbers():
    draws = SharedDraws(0, 50, dtype=torch.float64)
    first, second, subset = draws.rest(1, 2), draws.rest(1, 2), draws.subset(1, 2)
    assert not torch.equal(first, second)
    assert not torch.equal(first, subset)


def test_shared_numbers_are_fixed_by_the_seed_in_any_dtype():
    double, single = (SharedDraws(5, 3, dtype=dtype) for dtype in (torch.float64, torch.float32))
    numbers = single.subset(4, 2)
    assert numbers.dtype == torch.float32
    assert torch.equal(double.subset(4, 2).float(), numbers)
    assert not torch.equal(SharedDraws(6, 3, dtype=torch.float32).subset(4, 2), numbers)


def rehearsed(generators):
    """A tape after its rehearsal, in which a step asked for two tensors."""
    tape = TapeDraws(generators, 4)
    for rows, width in ((3, 2), (5, 1)):
        assert not tape.subset(rows, width).any()
    tape.finish_rehearsal()
    return tape


@pytest.mark.parametrize("leading", [(), (2,)])
def test_a_tape_hands_out_numbers_in_the_order_of_its_rehearsal(leading):
    generators = [torch.Generator().manual_seed(seed) for seed in range(2)] if leading else torch.Generator()
    tape = rehearsed(generators)
    numbers = tape.refill()
    tape.load(numbers)
    first, second = tape.subset(3, 2), tape.rest(5, 1)
    assert (first.shape, second.shape) == ((*leading, 4, 3, 2), (*leading, 4, 5, 1))
    assert torch.equal(first, numbers[0])
    assert torch.equal(second, numbers[1])
    assert not torch.equal(first, tape.refill()[0])


def test_a_part_of_the_rows_has_the_numbers_that_it_has_among_all():
    whole, part = (rehearsed(torch.Generator().manual_seed(0)) for _ in range(2))
    part.part = slice(2, 5)
    for tape in (whole, part):
        tape.load(tape.refill())
    assert torch.equal(part.subset(3, 2), whole.subset(3, 2))
    assert torch.equal(part.rest(3, 1), whole.rest(5, 1)[:, 2:5])


def test_a_replicate_of_a_tape_sees_the_numbers_that_it_sees_alone():
    alone = rehearsed(torch.Generator().manual_seed(1)).refill()
    among = rehearsed([torch.Generator().manual_seed(seed) for seed in (0, 1, 2)]).refill()
    for one, many in zip(alone, among, strict=True):
        assert torch.equal(one, many[1])


def test_a_tape_is_refilled_after_its_rehearsal_only():
    tape = TapeDraws(torch.Generator(), 4)
    with pytest.raises(RuntimeError, match="finish_rehearsal"):
        tape.refill()
    tape.finish_rehearsal()
    assert tape.refill() == ()


def test_numbers_by_position_do_not_depend_on_later_rows():
    few, many = (PositionDraws(0, 4, dtype=torch.float64) for _ in range(2))
    for source in ("rest", "subset", "rest"):
        one, two = getattr(few, source)(3, 2), getattr(many, source)(7, 2)
        assert torch.equal(one, two[:, :3])
    assert not torch.equal(few.rest(3, 2), few.rest(3, 2))
