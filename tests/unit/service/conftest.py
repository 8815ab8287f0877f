"""A host whose log, loop and listeners are real, and the journal of the stand-ins."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

import pytest

from collector.native.runtime import Runtime
from collector.service.build import Host
from collector.service.listeners import Listeners
from collector.service.loop import Loop
from collector.telemetry.logs import Log
from tests.unit.service.stand_ins import Part


@pytest.fixture
def log() -> Log:
    return Log(logging.getLogger("spansieve.test"))


@pytest.fixture
def loop(log: Log) -> Iterator[Loop]:
    with Loop(log) as loop:
        yield loop


@pytest.fixture
def host(log: Log, loop: Loop) -> Host:
    def no_server(_fd: int) -> object:
        raise AssertionError("this test has no HTTP server")

    return Host(
        runtime=Runtime(),
        loop=loop,
        listeners=Listeners(),
        log=log,
        clock=time.monotonic,
        instance_id="an-id",
        make_server=no_server,  # type: ignore[arg-type]
    )


@pytest.fixture
def journal() -> list[str]:
    Part.journal = []
    return Part.journal
