"""Laying one configuration over another."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from collector.config.merge import merge

_KEYS = st.sampled_from("abcd")
_MAPS = st.dictionaries(
    _KEYS,
    st.recursive(
        st.none() | st.integers() | st.lists(st.integers(), max_size=3),
        lambda inner: st.dictionaries(_KEYS, inner, max_size=3),
        max_leaves=10,
    ),
    max_size=4,
)


def test_maps_merge_and_the_rest_is_replaced() -> None:
    """Maps deep; lists, scalars and null replace."""
    base = {"map": {"kept": 1, "new": 2}, "list": [1, 2], "gone": {"x": 1}, "scalar": 1}
    over = {"map": {"new": 3}, "list": [9], "gone": None, "scalar": {"y": 2}}
    assert merge(base, over) == {
        "map": {"kept": 1, "new": 3},
        "list": [9],
        "gone": None,
        "scalar": {"y": 2},
    }


@given(_MAPS, _MAPS)
def test_merge_changes_neither_side(base: dict[str, Any], over: dict[str, Any]) -> None:
    """Both maps stay as they were."""
    before = copy.deepcopy((base, over))
    merge(base, over)
    assert (base, over) == before


@given(_MAPS, _MAPS)
def test_what_is_laid_over_wins(base: dict[str, Any], over: dict[str, Any]) -> None:
    """Laying the same over again changes nothing, and nothing over changes nothing."""
    merged = merge(base, over)
    assert merge(merged, over) == merged
    assert merge(base, {}) == base
    assert merge({}, over) == over


@given(_MAPS, _MAPS, _MAPS)
def test_top_level_keys_come_from_any_side(
    first: dict[str, Any], second: dict[str, Any], third: dict[str, Any]
) -> None:
    """No key is lost or invented."""
    assert set(merge(merge(first, second), third)) == {*first, *second, *third}
