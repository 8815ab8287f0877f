"""The health check's answers."""

from __future__ import annotations

import json
import types
from typing import Any

import pytest

from collector.component import AdminRequest, Settings
from collector.extensions.health_check import Config, HealthCheck, Http, ResponseBody, Status
from collector.ids import ComponentID

GET = AdminRequest("GET", "/", "")


class Setup:
    """A health check whose server is a record of what was asked of it."""

    def __init__(self, **config: Any) -> None:
        self.now_s = 500.0
        self.served: dict[str, Any] = {}
        settings = Settings(
            id=ComponentID("health_check"),
            signal=None,
            runtime=None,  # type: ignore[arg-type]
            log=None,  # type: ignore[arg-type]
            clock=lambda: self.now_s,
            serve=self._serve,
        )
        self.check = HealthCheck(Config(**config), settings, now=lambda: 1_700_000_000.25)

    def _serve(self, endpoint: str, routes: Any) -> Any:
        self.served.update(endpoint=endpoint, routes=routes)
        return types.SimpleNamespace(shutdown=lambda deadline_s: self.served.update(deadline_s=deadline_s))


def test_not_ready_is_503() -> None:
    """Before the pipelines run, in the Collector's words."""
    status, content_type, body = Setup().check.answer(GET)
    assert (503, "application/json") == (status, content_type)
    assert b'{"status":"Server not available","upSince":"0001-01-01T00:00:00Z","uptime":""}' == body


def test_ready_is_200() -> None:
    """Since when, and for how long."""
    setup = Setup()
    setup.check.ready()
    setup.now_s += 1.203
    status, content_type, body = setup.check.answer(GET)
    assert (200, "application/json") == (status, content_type)
    assert {
        "status": "Server available",
        "upSince": "2023-11-14T22:13:20.25Z",
        "uptime": "1.203s",
    } == json.loads(body)


def test_shutdown_begins_with_503() -> None:
    """So that a load balancer looks elsewhere while the collector drains."""
    setup = Setup()
    setup.check.ready()
    setup.check.not_ready()
    assert 503 == setup.check.answer(GET).status


def test_own_texts_replace_the_status() -> None:
    """One for each state."""
    setup = Setup(response_body=ResponseBody(healthy="fine", unhealthy="not yet"))
    assert (503, b"not yet") == (setup.check.answer(GET).status, setup.check.answer(GET).body)
    setup.check.ready()
    assert (200, b"fine") == (setup.check.answer(GET).status, setup.check.answer(GET).body)


def test_endpoint_and_path_are_served() -> None:
    """From start to shutdown."""
    setup = Setup(endpoint="127.0.0.1:0", path="/healthz")
    setup.check.start()
    assert "127.0.0.1:0" == setup.served["endpoint"]
    assert ["/healthz"] == list(setup.served["routes"])
    setup.check.shutdown(2)
    assert 2 == setup.served["deadline_s"]


@pytest.mark.parametrize(
    ("config", "messages"),
    [
        ({}, []),
        ({"endpoint": ""}, ["bad config: endpoint must be specified"]),
        ({"path": "health"}, ["bad config: path must start with /"]),
    ],
)
def test_problem_has_the_collectors_words(config: dict[str, Any], messages: list[str]) -> None:
    """And the defaults have none."""
    assert messages == [text for _field, text in Config(**config).problems()]


def test_second_version_answers_the_status() -> None:
    """At its own endpoint and path, 503 until all runs and from the beginning of the end."""
    setup = Setup(use_v2=True, http=Http(endpoint="localhost:1"))
    setup.check.start()
    assert "localhost:1" == setup.served["endpoint"]
    answer = setup.served["routes"]["/status"]
    answers = [answer(GET)]
    setup.check.ready()
    answers.append(answer(GET))
    setup.check.not_ready()
    answers.append(answer(GET))
    assert [503, 200, 503] == [status for status, _, _ in answers]
    bodies = [json.loads(body) for _, _, body in answers]
    assert ["StatusStarting", "StatusOK", "StatusStopping"] == [body["status"] for body in bodies]
    assert [False, True, False] == [body["healthy"] for body in bodies]
    assert {"2023-11-14T22:13:20.25Z"} == {body["start_time"] for body in bodies}


def test_second_version_serves_only_what_is_asked_for() -> None:
    """Nothing over HTTP when there is no section for it, or its status is off."""
    for config in ({"grpc": {}}, {"http": Http(status=Status(enabled=False))}):
        setup = Setup(use_v2=True, **config)
        setup.check.start()
        setup.check.shutdown(0.0)
        assert {} == setup.served
