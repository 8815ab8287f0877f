from __future__ import annotations

import math
import random

import pytest

from bench.statistics import fit, noise, paired_ratios


def test_fit_finds_the_line_that_costs_were_made_from() -> None:
    """10 us a request and 0.25 us an item, whatever the sizes."""
    sizes = [1, 10, 100, 512, 4096]
    found = fit(sizes, [10 + 0.25 * size for size in sizes])
    assert (10.0, 0.25) == pytest.approx(found)


def test_fit_weighs_small_and_large_requests_alike() -> None:
    """A tenth too much for the largest requests does not drown the cost of the smallest."""
    sizes = [1, 10, 100, 4096]
    costs = [10 + 0.25 * size for size in sizes]
    costs[-1] *= 1.1
    found = fit(sizes, costs)
    assert 10 == pytest.approx(found.request, rel=0.05)


@pytest.mark.parametrize(
    ("costs", "request_cost", "item_cost"),
    [([2.0, 20.0, 240.0], 0.0, 2.13), ([50.0, 50.0, 49.0], 49.66, 0.0)],
)
def test_no_part_of_a_fit_is_negative(costs: list[float], request_cost: float, item_cost: float) -> None:
    """Where a line would cross zero, the other part explains all."""
    found = fit([1, 10, 100], costs)
    assert request_cost == pytest.approx(found.request, abs=0.05)
    assert item_cost == pytest.approx(found.item, abs=0.05)


def test_fit_needs_two_sizes() -> None:
    """One size says nothing of a line."""
    with pytest.raises(ValueError, match="two different sizes"):
        fit([10, 10], [1.0, 2.0])


def test_ratios_are_taken_within_rounds() -> None:
    """A machine that slows down evenly burdens both alike: A B B A."""
    ours, theirs = [], []
    for start in (1.0, 5.0):
        ours += [start, start + 3]  # A . . A
        theirs += [2 * (start + 1), 2 * (start + 2)]  # . B B .
    assert (0.5, 0.5) == paired_ratios(ours, theirs)


def test_noise_is_the_medians_standard_error() -> None:
    """About sigma x 1.25 / sqrt(n) for values that are normally distributed."""
    chance = random.Random(1)
    values = [chance.gauss(100, 5) for _ in range(4_000)]
    assert 0.05 * 1.2533 / math.sqrt(4_000) == pytest.approx(noise(values), rel=0.1)


def test_noise_is_not_moved_by_one_disturbed_repeat() -> None:
    """Nine quiet repeats and a wild one are quiet."""
    assert noise([100.0] * 9 + [900.0]) == 0


def test_two_of_three_values_that_agree_by_chance_are_not_quiet() -> None:
    """Their median deviation is nothing; their range tells of the third."""
    assert 0.1 < noise([2.0, 2.0, 2.6]) < 0.2


def test_one_value_has_no_noise() -> None:
    """Nothing is known of its spread, and nothing divides by zero."""
    assert 0 == noise([5.0]) == noise([0.0, 0.0])
