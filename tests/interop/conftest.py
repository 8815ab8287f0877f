"""The Collector that the suite is run against."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.interop import harness
from tests.interop.taps import Tap, config


@pytest.fixture(scope="module")
def taps(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Tap]]:
    """Both, for all the requests of a module."""
    with harness.run_both(config, tmp_path_factory.mktemp("taps")) as pair:
        yield {side: Tap(process, pair.sinks[side]) for side, process in pair.processes.items()}


@pytest.fixture
def whole_module(request: pytest.FixtureRequest) -> None:
    """Skip the test where only some of its module run: it is about them all."""
    config = request.config
    if config.getoption("keyword") or any("::" in argument for argument in config.args):
        pytest.skip("only some of the cases ran")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give slow machines time, and skip what needs the Collector where it was not built."""
    is_there = os.access(harness.COLLECTOR, os.X_OK)
    for item in items:
        if item.path.is_relative_to(harness.ROOT / "tests" / "interop"):
            item.add_marker(pytest.mark.timeout(600))
            if not is_there and item.path.name not in ("test_sdks.py", "test_servers.py"):
                item.add_marker(pytest.mark.skip(reason="needs the real Collector: make interop"))
