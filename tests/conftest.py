"""Fixtures that every layer of tests shares."""

from __future__ import annotations

import hypothesis
import pytest

from tests.support import corpus as corpus_files

# Shared, noisy machines: no deadline an example, few examples by default, the same ones each time.
hypothesis.settings.register_profile("default", deadline=None, max_examples=50, derandomize=True)
hypothesis.settings.load_profile("default")


@pytest.fixture(scope="session")
def hipstershop() -> bytes:
    """The Hipster Shop capture: one ExportTraceServiceRequest of 86,583 spans."""
    return corpus_files.messages("hipstershop-oteltraces.zst")[0]


@pytest.fixture(scope="session")
def astronomy() -> list[bytes]:
    """The astronomy shop capture: 465 ExportTraceServiceRequests, 64,151 spans."""
    return corpus_files.messages("astronomy-oteltraces.zst")
