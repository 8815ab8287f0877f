"""Start, reload and shutdown of whole collectors made of stand-ins."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from collector.component import Settings
from collector.errors import StartError, explain
from collector.ids import Signal
from collector.lean import replace
from collector.native.pipeline import Queue
from collector.native.runtime import Worker
from collector.service.build import Host, Instance
from collector.service.lifecycle import Service
from tests.unit.service.stand_ins import (
    Config,
    FakeExporter,
    FakeReceiver,
    FakeStage,
    FakeWatcher,
    RoutedReceiver,
    make_document,
    make_factory,
    make_request,
)

PIPELINES = {"traces": ("in", "stage short", "out")}


def _instances(service: Service) -> dict[str, Instance]:
    return {str(node.id): instance for node, instance in service._running.instances.items()}


def _value(service: Service, name: str, **labels: str) -> float:
    return sum(
        sample.value
        for sample in service.samples()
        if sample.instrument.name == name and labels.items() <= dict(sample.labels).items()
    )


def _wait_until(condition: Any) -> None:
    deadline_s = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline_s
        threading.Event().wait(0.001)


class TestStart:
    """From a document to a running collector."""

    def test_order_is_extensions_exporters_processors_receivers(self, host: Host, journal: list[str]) -> None:
        """A component starts after those that it passes on to; watchers then learn that all is ready."""
        service = Service(host)
        document = make_document(
            {"traces": ("in", "stage short", "link"), "traces/b": ("link", "limiter", "out")},
            connectors="link",
            extensions="watch",
        )
        service.start(document)
        assert [
            "start watch",
            "start out(traces)",
            "start limiter(traces)",
            "start link(traces)",
            "start short(traces)",
            "start stage(traces)",
            "start in",
            "ready watch",
        ] == journal
        journal.clear()
        service.not_ready()
        service.shutdown()
        assert [
            "not ready watch",
            "shutdown in",
            "shutdown stage(traces)",
            "shutdown short(traces)",
            "shutdown link(traces)",
            "shutdown limiter(traces)",
            "shutdown out(traces)",
            "shutdown watch",
        ] == journal

    def test_failure_shuts_down_what_had_started(self, host: Host, journal: list[str]) -> None:
        """A collector that cannot start leaves nothing running, and says which component it was."""
        service = Service(host)
        document = make_document(PIPELINES, extensions="watch", configs={"in": Config(fails=True)})
        with pytest.raises(StartError) as caught:
            service.start(document)
        assert (
            'cannot start pipelines: failed to start "in" receiver: listen tcp 127.0.0.1:1: bind: permission denied'
            == caught.value.message
        )
        stopped = [line.removeprefix("shutdown ") for line in journal if line.startswith("shutdown")]
        assert ["in", "stage(traces)", "short(traces)", "out(traces)", "watch"] == stopped
        assert "ready watch" not in journal

    @pytest.mark.parametrize("step", ["__init__", "start"])
    @pytest.mark.parametrize("kind", [KeyError, SystemExit, BaseException])
    def test_component_with_a_bug_is_one_that_cannot_start(
        self,
        host: Host,
        journal: list[str],
        caplog: pytest.LogCaptureFixture,
        step: str,
        kind: type[BaseException],
    ) -> None:
        """Whatever it raises: nothing is left running, the message names it and its error, the log has where."""

        def fail(*_arguments: Any) -> None:
            raise kind("oops")

        buggy = make_factory(type("Buggy", (FakeReceiver,), {step: fail}))
        with pytest.raises(StartError) as caught:
            Service(host).start(make_document(PIPELINES, factories={"in": buggy}))
        assert f'"in" receiver: {explain(kind("oops"))}' in caught.value.message
        (record,) = [record for record in caplog.records if record.levelname == "ERROR"]
        assert "in fail" in record.fields["traceback"]  # type: ignore[attr-defined]
        assert journal.count("start out(traces)") == journal.count("shutdown out(traces)")

    def test_failing_extension_is_said_to_be_one(self, host: Host, journal: list[str]) -> None:
        """The message tells extensions from pipelines, as the Collector's does."""
        document = make_document(PIPELINES, extensions="watch", configs={"watch": Config(fails=True)})
        with pytest.raises(StartError) as caught:
            Service(host).start(document)
        assert caught.value.message.startswith(
            'failed to start extensions: failed to start extension "watch": '
        )

    def test_receiver_has_its_routes_before_it_starts(self, host: Host, journal: list[str]) -> None:
        """The first request of a fast client finds the pipeline."""
        routes: list[list[Signal]] = []

        class Eager(FakeReceiver):
            def start(self) -> None:
                routes.append(list(self.routes))

        service = Service(host)
        service.start(make_document(PIPELINES, factories={"in": make_factory(Eager)}))
        assert [[Signal.TRACES]] == routes
        service.shutdown()


class TestReload:
    """From one configuration to the next."""

    @pytest.fixture
    def service(self, host: Host, journal: list[str]) -> Service:
        service = Service(host)
        service.start(make_document(PIPELINES, extensions="watch"))
        journal.clear()
        return service

    def test_unchanged_document_touches_nothing(self, service: Service, journal: list[str]) -> None:
        """A reload of the same file starts and stops nothing."""
        before = _instances(service)
        service.reload(make_document(PIPELINES, extensions="watch"))
        assert before == _instances(service)
        assert [] == journal
        service.shutdown()

    def test_changed_exporter_leaves_after_its_batch_has_drained(
        self, service: Service, host: Host, journal: list[str]
    ) -> None:
        """What the old batch held goes to the old exporter, before that one stops; the receiver stays."""
        before = _instances(service)
        before["in"].component.routes[Signal.TRACES].push(Worker(host.runtime), make_request(3))
        service.reload(make_document(PIPELINES, extensions="watch", configs={"out": Config(1)}))
        after = _instances(service)
        _wait_until(lambda: "shutdown out(traces)" in journal)
        assert [
            "start out(traces)",
            "start stage(traces)",
            "shutdown stage(traces)",
            "shutdown out(traces)",
        ] == journal
        assert before["in"] is after["in"]
        assert 3 == before["out"].component.consumer.items
        assert 0 == after["out"].component.consumer.items
        service.shutdown()

    def test_no_request_is_refused_or_lost(self, host: Host, journal: list[str]) -> None:
        """Requests all through many reloads are all taken, and each arrives at one of the exporters."""
        factories = {"in": make_factory(RoutedReceiver)}
        service = Service(host)
        service.start(make_document(PIPELINES, factories=factories))
        receiver = _instances(service)["in"].component
        exporters = [_instances(service)["out"].component]
        pushed = 0
        is_done = threading.Event()
        refusals: list[str] = []

        def push() -> None:
            nonlocal pushed
            worker = Worker(host.runtime)
            while not is_done.is_set() and not refusals:
                if refusal := receiver.accept(worker, make_request(1)):
                    refusals.append(refusal)
                pushed += 1

        client = threading.Thread(target=push)
        client.start()
        for number in range(1, 20):
            before = pushed
            service.reload(make_document(PIPELINES, factories=factories, configs={"out": Config(number)}))
            exporters.append(_instances(service)["out"].component)
            _wait_until(lambda before=before: pushed > before)
        is_done.set()
        client.join()
        service.shutdown()
        _wait_until(lambda: not service._leaving)
        assert [] == refusals
        assert pushed == sum(exporter.consumer.items for exporter in exporters)

    def test_failing_component_leaves_all_as_it_was(self, service: Service, journal: list[str]) -> None:
        """A reload that cannot start its new parts stops those again and nothing else."""
        before = _instances(service)
        with pytest.raises(StartError):
            service.reload(
                make_document(PIPELINES, extensions="watch watch/2", configs={"watch/2": Config(fails=True)})
            )
        assert before == _instances(service)
        assert ["start watch/2", "shutdown watch/2"] == journal
        service.shutdown()

    def test_counters_never_go_back(self, service: Service, host: Host) -> None:
        """What a departed component had counted stays in the collector's sum."""
        before = _instances(service)["short"].component
        before.count = 7
        service.reload(make_document(PIPELINES, configs={"short": Config(1)}))
        after = _instances(service)["short"].component
        assert before is not after
        after.count = 2
        part = {"part": "short(traces)"}
        assert 9 == _value(service, "part_events", **part)
        _wait_until(lambda: not service._leaving)
        assert 9 == _value(service, "part_events", **part)
        service.shutdown()
        assert 9 == _value(service, "part_events", **part)

    def test_component_that_cannot_listen_to_news_or_count_holds_up_nobody(
        self, host: Host, journal: list[str], caplog: pytest.LogCaptureFixture
    ) -> None:
        """The others are told and shown, what the reload replaced is shut down, and the errors are logged."""

        class Broken(FakeWatcher):
            def ready(self) -> None:
                raise SystemExit("broken")

            not_ready = samples = ready  # type: ignore[assignment]

        parts = {"extensions": "bad watch", "factories": {"bad": make_factory(Broken)}}
        service = Service(host)
        service.start(make_document(PIPELINES, **parts))
        assert "ready watch" in journal
        assert 0 == _value(service, "part_events", part="watch")
        service.reload(make_document(PIPELINES, **parts, configs={"out": Config(1), "bad": Config(1)}))
        _wait_until(lambda: not service._leaving)
        assert "shutdown bad" in journal
        service.not_ready()
        assert "not ready watch" in journal
        service.shutdown()
        errors = [record for record in caplog.records if record.levelname == "ERROR"]
        assert {"ready failed", "not_ready failed", "samples failed"} == {record.message for record in errors}
        assert all("in ready" in record.fields["traceback"] for record in errors)  # type: ignore[attr-defined]

    def test_samples_before_a_broken_one_are_shown(self, host: Host) -> None:
        """What a component gives that is no Sample costs what comes behind it, not the page."""

        class Odd(FakeWatcher):
            def samples(self) -> Any:
                yield from super().samples()
                yield "no sample"

        service = Service(host)
        service.start(make_document(PIPELINES, extensions="odd", factories={"odd": make_factory(Odd)}))
        assert 0 == _value(service, "part_events", part="odd")
        service.shutdown()

    @pytest.mark.parametrize("fails", [False, True])
    def test_exporter_that_stays_gets_what_the_other_holds(self, host: Host, fails: bool) -> None:
        """Of an exporter and its successor; where the reload fails, the successor gives back what it has taken in."""
        queues: list[Queue] = []

        class Queued(FakeExporter):
            def __init__(self, config: Config, settings: Settings) -> None:
                super().__init__(config, settings)
                self.consumer = Queue(settings.runtime, Signal.TRACES, sizer="requests", capacity=9)
                queues.append(self.consumer)

            def shutdown(self, deadline_s: float) -> None:
                super().shutdown(deadline_s)
                self.consumer.close()

        class Eager(RoutedReceiver):
            def start(self) -> None:
                super().start()
                assert not self.accept(Worker(self.settings.runtime), make_request(3))

        parts: dict[str, Any] = {"factories": {"in": make_factory(Eager), "out": make_factory(Queued)}}
        pipelines = {"traces": ("in in/2", "", "out")}
        service = Service(host)
        service.start(make_document(pipelines, **parts))
        changed = {"in": Config(1), "in/2": Config(1, fails=fails), "out": Config(1)}
        document = make_document(pipelines, **parts, configs=changed)
        if fails:
            with pytest.raises(StartError):
                service.reload(document)
        else:
            service.reload(document)
        # Two requests came before the reload, one by each receiver, and one by each that has started since.
        assert ([9, 0] if fails else [0, 12]) == [queue.stats().items for queue in queues]
        service.shutdown()

    def test_what_stays_looks_at_its_files(self, host: Host, journal: list[str]) -> None:
        """What a reload keeps is told of it; what it starts has read its files just now."""

        class Reader(FakeWatcher):
            def refresh(self) -> None:
                self.journal.append(f"refresh {self.name}")

        factories = {"files": make_factory(Reader)}
        service = Service(host)
        service.start(make_document(PIPELINES, extensions="files", factories=factories))
        journal.clear()
        service.reload(make_document(PIPELINES, extensions="files files/2", factories=factories))
        assert ["start files/2", "ready files/2", "refresh files"] == journal
        service.shutdown()

    def test_what_has_become_stale_is_made_anew(self, host: Host, journal: list[str]) -> None:
        """An instance whose surroundings have changed, or whose socket clients no longer find, is not kept."""
        stale: list[str] = []

        class Aware(FakeReceiver):
            def is_stale(self) -> bool:
                return self.name in stale

        service = Service(host)
        document = make_document({"traces": ("in", "", "out")}, factories={"in": make_factory(Aware)})
        service.start(document)
        service.reload(document)
        assert 1 == journal.count("start in")
        stale.append("in")
        service.reload(document)
        assert 2 == journal.count("start in")
        assert 1 == journal.count("start out(traces)")
        service.shutdown()

    def test_new_watcher_learns_that_all_is_ready(self, service: Service, journal: list[str]) -> None:
        """A health check added by a reload answers 200 from then on."""
        service.reload(make_document(PIPELINES, extensions="watch watch/2"))
        assert ["start watch/2", "ready watch/2"] == journal
        service.shutdown()

    def test_changed_receiver_takes_over_the_socket(self, host: Host, journal: list[str]) -> None:
        """Old and new instance listen on one socket: no moment in which a connection would be refused."""
        sockets: list[Any] = []

        class Listening(FakeReceiver):
            def start(self) -> None:
                super().start()
                sockets.append(self.settings.listeners.get("tcp", "127.0.0.1:0"))

        factories = {"in": make_factory(Listening)}
        service = Service(host)
        service.start(make_document(PIPELINES, factories=factories))
        service.reload(make_document(PIPELINES, factories=factories, configs={"in": Config(1)}))
        _wait_until(lambda: "shutdown in" in journal)
        assert sockets[0] is sockets[1]
        assert -1 != sockets[0].fileno()
        service.shutdown()
        assert -1 == sockets[0].fileno()


class TestShutdown:
    """The drain, and its deadline."""

    def test_gathered_items_are_passed_on(self, host: Host, journal: list[str]) -> None:
        """What was acknowledged leaves before the exporter is shut down."""
        service = Service(host)
        service.start(make_document(PIPELINES))
        instances = _instances(service)
        instances["in"].component.routes[Signal.TRACES].push(Worker(host.runtime), make_request(5))
        service.shutdown()
        assert 5 == instances["out"].component.consumer.items

    def test_component_that_hangs_does_not_hold_the_others(self, host: Host, journal: list[str]) -> None:
        """Every other component is shut down, also the next one of its pipeline, in the timeout and a little."""
        release = threading.Event()
        ended: list[str] = []

        class Hanging(FakeExporter):
            def shutdown(self, deadline_s: float) -> None:
                release.wait(60)
                ended.append("exporter")

        class HangingStage(FakeStage):
            def shutdown(self, deadline_s: float) -> None:
                release.wait(60)
                ended.append("stage")

        service = Service(host)
        service.start(
            make_document(
                {"traces": ("in", "stall stage", "hang out")},
                factories={"hang": make_factory(Hanging), "stall": make_factory(HangingStage)},
                extensions="watch",
                shutdown_timeout=0.2,
            )
        )
        service.shutdown()
        assert not ended, "it has waited for what hangs"
        release.set()
        assert ["shutdown in", "shutdown stage(traces)", "shutdown out(traces)", "shutdown watch"] == journal[
            -4:
        ]

    def test_component_that_raises_does_not_stop_the_others(
        self, host: Host, journal: list[str], caplog: pytest.LogCaptureFixture
    ) -> None:
        """The error is logged and the shutdown goes on."""

        class Raising(FakeStage):
            def shutdown(self, deadline_s: float) -> None:
                raise RuntimeError("broken")

        service = Service(host)
        service.start(make_document(PIPELINES, factories={"stage": make_factory(Raising)}))
        service.shutdown()
        assert "shutdown out(traces)" in journal
        assert ["shutdown failed"] == [
            record.message for record in caplog.records if record.levelname == "ERROR"
        ]

    def test_each_kind_is_left_a_share_of_the_time(self, host: Host, journal: list[str]) -> None:
        """Slow clients cannot use up the time that exporters need."""
        deadlines: dict[str, float] = {}

        class Timed(FakeReceiver):
            def shutdown(self, deadline_s: float) -> None:
                deadlines["in"] = deadline_s

        class TimedOut(FakeExporter):
            def shutdown(self, deadline_s: float) -> None:
                deadlines["out"] = deadline_s

        service = Service(replace(host, clock=lambda: 100.0))
        factories = {"in": make_factory(Timed), "out": make_factory(TimedOut)}
        service.start(make_document(PIPELINES, factories=factories, shutdown_timeout=10.0))
        service.shutdown()
        assert {"in": pytest.approx(3.0), "out": pytest.approx(9.5)} == deadlines

    def test_without_start_is_nothing(self, host: Host) -> None:
        """A service that never ran shuts down at once."""
        Service(host).shutdown()
