"""SDKs of five languages with their defaults, set up by environment variables: all that they make arrives as it was."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from collector.ids import Signal
from tests.interop.harness import Ports, Process, Sink, base, to_sink
from tests.interop.sdk import scenario
from tests.interop.sdk.programs import LANGUAGES, Program, run
from tests.interop.sdk.relay import Relay
from tests.interop.sdk.scenario import Arrived, Made

ROUNDS = 300  # 600 spans: more than one batch of an SDK
WAIT_S = 30.0

PROTOCOLS = {
    "python": ("grpc", "http/protobuf", "http/json"),
    "node": ("grpc", "http/protobuf", "http/json"),
    "java": ("grpc", "http/protobuf"),
    "go": ("grpc", "http/protobuf"),
    "rust": ("grpc", "http/protobuf", "http/json"),
}
SERVED = [(language, protocol) for language, protocols in PROTOCOLS.items() for protocol in protocols]
CONTENT_TYPES = {
    "grpc": "application/grpc",
    "http/protobuf": "application/x-protobuf",
    "http/json": "application/json",
}


def _config(ports: Ports, **sections: Any) -> dict[str, Any]:
    """Return the configuration of a collector that hands everything on to the sink."""
    processors = sections.get("processors", {})
    pipeline = {"receivers": ["otlp"], "processors": list(processors), "exporters": ["otlp_http"]}
    sections.setdefault("exporters", {"otlp_http": to_sink(ports)})
    return base(ports, pipelines={signal.value: pipeline for signal in Signal}, **sections)


def _environment(language: str, protocol: str, ports: Ports | Relay, **variables: str) -> dict[str, str]:
    """Return what a user sets for protocol to a collector on ports."""
    ...
