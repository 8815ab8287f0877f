"""The Collector that the suite is run against."""

from __future__ import annotations

import os

import pytest

from tests.interop import harness


@pytest.fixture
def whole_module(request: pytest.FixtureRequest) -> None:
    """Skip the test where only some of its module run: it is about them all."""
    config = request.config
    if config.getoption("keyword") or any("::" in argument for argument in config.args):
        pytest.skip("only some of the cases ran")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give slow machines time, and skip the suite where no Collector was built."""
    is_there = os.access(harness.COLLECTOR, os.X_OK)
    for item in items:
        if item.path.is_relative_to(harness.ROOT / "tests" / "interop"):
            item.add_marker(pytest.mark.timeout(600))
            if not is_there:
                item.add_marker(pytest.mark.skip(reason="needs the real Collector: make interop"))
