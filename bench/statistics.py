"""The arithmetic of repeated measurements: fits, ratios within rounds, and noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple


class Fit(NamedTuple):
    """The cost of a request of n items is `request` + n x `item`."""

    request: float
    item: float


def fit(sizes: Sequence[int], costs: Sequence[float]) -> Fit:
    """Return the line that comes nearest to costs, each in proportion to itself, with neither part below 0.

    Args:
        sizes: items in a request; at least two different ones.
        costs: of a request of each size, > 0.

    Raises:
        ValueError: fewer than two different sizes.
    """
    if len(set(sizes)) < 2:
        raise ValueError("a line needs two different sizes")
    # Least squares of (request + n item - cost) / cost: rows (1/cost, n/cost), right-hand side 1.
    constant = [1 / cost for cost in costs]
    slope = [size / cost for size, cost in zip(sizes, costs, strict=True)]
    cc, cs, ss = _dot(constant, constant), _dot(constant, slope), _dot(slope, slope)
    c, s = sum(constant), sum(slope)
    determinant = cc * ss - cs * cs
    request = (c * ss - s * cs) / determinant
    item = (s * cc - c * cs) / determinant
    if request < 0:
        return Fit(0.0, s / ss)
    if item < 0:
        return Fit(c / cc, 0.0)
    return Fit(request, item)


def _dot(left: Sequence[float], right: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))


def paired_ratios(numerators: Sequence[float], denominators: Sequence[float]) -> tuple[float, ...]:
    """Return a ratio for each round A B B A, so that what drifts evenly during a round burdens both alike.

    Args:
        numerators, denominators: two values a round, in order.
    """
    return tuple(
        (numerators[i] + numerators[i + 1]) / (denominators[i] + denominators[i + 1])
        for i in range(0, len(numerators), 2)
    )


_MAD_TO_SIGMA = 1.4826  # of a normal distribution
_RANGE_TO_SIGMA = {2: 1 / 1.128, 3: 1 / 1.693, 4: 1 / 2.059, 5: 1 / 2.326}  # of so many values, likewise
_MEDIAN_TO_MEAN = math.sqrt(math.pi / 2)  # the median's standard error over the mean's, likewise


def noise(values: Sequence[float]) -> float:
    """Return the standard error of the median in proportion to it; 0 for one value.

    It comes from the median absolute deviation, which a few disturbed repeats do not move; of up to five values from
    their range where that says more, since two of so few lie close together by chance.
    """
    middle = median(values)
    if len(values) < 2 or not middle:
        return 0.0
    sigma = _MAD_TO_SIGMA * median(abs(value - middle) for value in values)
    if factor := _RANGE_TO_SIGMA.get(len(values)):
        sigma = max(sigma, factor * (max(values) - min(values)))
    return _MEDIAN_TO_MEAN * sigma / math.sqrt(len(values)) / abs(middle)
