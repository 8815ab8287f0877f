"""Where the metrics page is served and what it carries, from the telemetry section."""

from __future__ import annotations

import logging
import types
from typing import Any

import pytest

from collector.component import AdminRequest, Settings
from collector.config.document import Metrics, Prometheus
from collector.errors import StartError
from collector.ids import ComponentID
from collector.service.metrics import MetricsServer, make_page
from collector.telemetry.instruments import Instrument, Sample
from collector.telemetry.logs import Log


def _telemetry(resource: dict[str, Any] | None = None, **prometheus: Any) -> Any:
    metrics = Metrics("normal", Prometheus(**prometheus))
    return types.SimpleNamespace(metrics=metrics, resource=resource or {})


def test_defaults_are_the_collectors() -> None:
    """Port 8888 on localhost, counters without suffix."""
    page = make_page(_telemetry(), "an-id")
    assert page is not None
    assert ("localhost:8888", False, {}) == (page.endpoint, page.suffixes, page.constant)
    assert ["service.name", "service.version", "service.instance.id"] == list(page.target)


def test_level_none_serves_nothing() -> None:
    """Without a reader there is no server."""
    telemetry = types.SimpleNamespace(metrics=types.SimpleNamespace(prometheus=None), resource={})
    assert make_page(telemetry, "an-id") is None


@pytest.mark.parametrize("host", ["::1", "[::1]"])
def test_ipv6_host_gets_its_brackets(host: str) -> None:
    """The host is written without them, or with them, as the Collector takes it too."""
    page = make_page(_telemetry(host=host), "an-id")
    assert page is not None
    assert "[::1]:8888" == page.endpoint


def test_resource_adds_replaces_and_removes() -> None:
    """Null takes a default attribute away."""
    page = make_page(_telemetry({"service.name": "mine", "service.instance.id": None, "zone": 3}), "an-id")
    assert page is not None
    assert {"mine", "3"} < set(page.target.values())
    assert "service.instance.id" not in page.target


def test_constant_labels_are_chosen_by_pattern() -> None:
    """Included less excluded."""
    labels = {"included": ("service.*",), "excluded": ("*.id",)}
    page = make_page(_telemetry({"zone": "a"}, with_resource_constant_labels=labels), "an-id")
    assert page is not None
    assert ["service.name", "service.version"] == list(page.constant)


@pytest.mark.parametrize(
    ("keys", "name"),
    [
        ({}, b"\nevents 2\n"),
        ({"without_type_suffix": False}, b"\nevents_total 2\n"),
        ({"without_units": False}, b"\nevents_total 2\n"),
    ],
)
def test_page_is_answered_at_metrics(keys: dict[str, bool], name: bytes) -> None:
    """The samples are taken when the page is asked for; either key asks for both suffixes, as in the Collector."""
    served: dict[str, Any] = {}

    def serve(endpoint: str, routes: Any) -> Any:
        served.update(endpoint=endpoint, routes=routes)
        return types.SimpleNamespace(shutdown=lambda deadline_s: served.update(deadline_s=deadline_s))

    page = make_page(_telemetry(**keys), "an-id")
    assert page is not None
    settings = Settings(id=ComponentID("x"), signal=None, runtime=None, log=None, serve=serve)  # type: ignore[arg-type]
    server = MetricsServer(
        page, settings, lambda: [Sample(Instrument("events", "counter", "Events."), (), 2)]
    )
    server.start()
    answer = served["routes"]["/metrics"](AdminRequest("GET", "/metrics", ""))
    server.shutdown(3)
    assert ("localhost:8888", 3) == (served["endpoint"], served["deadline_s"])
    assert (200, "text/plain; version=0.0.4; charset=utf-8") == answer[:2]
    assert name in answer.body


@pytest.mark.parametrize(("method", "status"), [("GET", 200), ("HEAD", 200), ("DELETE", 405), ("POST", 405)])
def test_page_is_only_read(method: str, status: int) -> None:
    """GET and HEAD, as the answer's Allow says; nothing else pretends to have had an effect."""
    page = make_page(_telemetry(), "an-id")
    assert page is not None
    settings = Settings(id=ComponentID("metrics"), signal=None, runtime=None, log=None)  # type: ignore[arg-type]
    server = MetricsServer(page, settings, list)
    assert status == server._answer(AdminRequest(method, "/metrics", "")).status


@pytest.mark.parametrize("is_stand_in", [False, True])
def test_address_that_cannot_be_had_names_its_key(
    is_stand_in: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The start fails with what to change; a page that nobody has asked for stops no start."""

    def serve(_endpoint: str, _routes: Any) -> Any:
        raise StartError("x", "listen tcp localhost:8888: bind: address already in use")

    page = make_page(_telemetry(), "an-id")
    assert page is not None
    settings = Settings(
        id=ComponentID("x"),
        signal=None,
        runtime=None,  # type: ignore[arg-type]
        log=Log(logging.getLogger("metrics")),
        serve=serve,  # type: ignore[arg-type]
    )
    server = MetricsServer(page._replace(is_stand_in=is_stand_in), settings, list)
    said = "address already in use; set another host or port in service::telemetry::metrics::readers, such as"
    if is_stand_in:
        server.start()
        [record] = caplog.records
        assert "metrics cannot be scraped" == record.message
        assert said in record.__dict__["fields"]["error"]
    else:
        with pytest.raises(StartError, match=said):
            server.start()
    server.shutdown(0)
