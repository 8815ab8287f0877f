"""Why a target is missed: a profile of our process under that very load, or of its memory, its start, its bytes."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from bench import compression, kernel, perf, targets
from bench.figures import OURS, Figure, Profile, Run
from bench.place import Place
from bench.processes import ROOT, MissingTool, find_tool, resident_by_mapping
from bench.scenarios import Case, Scenario
from bench.systems import Server
from bench.tools import Load, Sink

_S = 2.0
_LOAD_S = _S + 1.5
_CALLGRIND_REQUESTS = 2_000
_SETTLE_S = 0.5
_OVERLOAD_S = 3.0
_TOP = 3
_MOST_ROWS = 40
_IMPORT = re.compile(r"^import time:\s+(\d+) \|\s+(\d+) \|\s*(\S+)$", re.MULTILINE)


class Findings(NamedTuple):
    """What was found.

    Attributes:
        how: in what way it was looked.
        top: the greatest costs, with their shares.
        text: the whole.
    """

    how: str
    top: Sequence[str]
    text: str


def wanted(run: Run, names: Sequence[str]) -> list[Figure]:
    """Return what is to be profiled: what misses its target, and our CPU times of scenarios by name."""
    found = [target.figure for target in targets.missed(run)]
    found += [figure for name in names for figure in run.find("cpu", system=OURS, scenario=name)]
    return found


def take(
    figures: Sequence[Figure], scenarios: dict[str, Scenario], place: Place, folder: Path
) -> Iterator[Profile]:
    """Write a profile for each figure into a folder, and yield it; figures of one load share one.

    What cannot be had here is said in its place.
    """
    taken: dict[str, Profile] = {}
    for figure in figures:
        witness = _WITNESSES.get(figure.kind)
        if witness is None:
            continue
        name = _name(figure)
        if name not in taken:
            place.say(f"profile: {name}")
            taken[name] = _take(figure, witness, scenarios, place, folder / f"{name}.txt")
        yield dataclasses.replace(taken[name], of=figure.label)


def _take(
    figure: Figure, witness: Witness, scenarios: dict[str, Scenario], place: Place, path: Path
) -> Profile:
    try:
        found = witness(figure, scenarios.get(figure.scenario), place)
    except (MissingTool, RuntimeError, OSError, subprocess.SubprocessError) as error:
        found = Findings(f"no profile could be had: {error}", (), "")
    path.parent.mkdir(parents=True, exist_ok=True)
    where = ", ".join(filter(None, (OURS, figure.scenario, figure.case)))
    path.write_text(f"{where}\n{found.how}\n\n{found.text}", encoding="utf-8")
    return Profile(of=figure.label, file=path.name, how=found.how, top=tuple(found.top[:_TOP]))


def _name(figure: Figure) -> str:
    """Return a name for a file that figures of one load have in common."""
    aspect = _ASPECTS.get(figure.kind, "cpu")
    words = re.sub(r"[^a-z0-9]+", "_", f"{figure.scenario} {figure.case}".lower()).strip("_")
    return f"{words}_{aspect}"


def _cpu(figure: Figure, scenario: Scenario | None, place: Place) -> Findings:
    """Sample the process under the load of a figure."""
    assert scenario is not None
    with Sink(place.cores.load) as sink:
        try:
            with place.start(OURS, scenario, sink.port) as server:
                samples = _sample(server, figure, scenario, place)
        except (MissingTool, RuntimeError) as error:
            return _callgrind(figure, scenario, sink, place, str(error))
    how = f"perf, cpu-clock over {_S:g} s, {len(samples):,} samples"
    if not samples:
        return Findings(how, (), "")
    top = [f"{share:.0%} {cost}" for cost, share in perf.costs(samples)]
    return Findings(how, top, perf.render(samples))


def _sample(server: Server, figure: Figure, scenario: Scenario, place: Place) -> list[perf.Sample]:
    time.sleep(_SETTLE_S)
    sender = None
    if figure.items is not None:
        load, rate = _load(figure, scenario, place), figure.rate
        sender = threading.Thread(
            target=load.send,
            args=(server.port,),
            kwargs={
                "duration_s": _LOAD_S,
                "retry": True,
                "rate": rate * figure.items if rate is not None else None,
            },
        )
        sender.start()
        time.sleep(_SETTLE_S)
    try:
        # The installed library has been stripped of the names of static functions; this one has not.
        return perf.record(server.pid, _S, place.folder, sorted(ROOT.glob("build/cp*/_spansieve*.so")))
    finally:
        if sender:
            sender.join()


def _load(figure: Figure, scenario: Scenario, place: Place) -> Load:
    case = Case(figure.items or 1, figure.streams or 1, figure.connections or 1, figure.bodies)
    return place.load(
        scenario.signal,
        case.items,
        streams=case.streams,
        connections=case.connections,
        capture=case.bodies,
    )


def _callgrind(figure: Figure, scenario: Scenario, sink: Sink, place: Place, why: str) -> Findings:
    """Count instructions where there is no perf: slow, without the kernel, but it says where."""
    counts = place.folder / "callgrind.server"
    under = [find_tool("valgrind", "valgrind"), "--tool=callgrind", f"--callgrind-out-file={counts}"]
    control = find_tool("callgrind_control", "valgrind")
    with place.start(OURS, scenario, sink.port, under=[*under, "--instr-atstart=no"]) as server:
        subprocess.run([control, "-i", "on", str(server.pid)], capture_output=True, check=True)
        if figure.items is not None:
            _load(figure, scenario, place).send(server.port, requests=_CALLGRIND_REQUESTS, retry=True)
    how = f"callgrind, {_CALLGRIND_REQUESTS:,} requests, user space only, since {why}"
    return _annotated(how, kernel.annotate(counts))


def _annotated(how: str, text: str) -> Findings:
    """Return what callgrind_annotate says, with its first functions."""
    rows = re.findall(r"^\s*([\d,]+) \(\s*([\d.]+)%\)\s+\S*?:(\S+)", text, re.MULTILINE)[:_MOST_ROWS]
    top = [f"{float(share):.0f}% {function}" for _, share, function in rows]
    lines = [f"{float(share):5.1f}%  {count:>15}  {function}" for count, share, function in rows]
    return Findings(how, top, "\n".join([f"share   {'instructions':>15}  function", *lines]) + "\n")


def _instructions(figure: Figure, _scenario: Scenario | None, place: Place) -> Findings:
    how = "callgrind, instructions of this stage and those before it"
    return _annotated(how, kernel.functions(place, figure.scenario))


def _start(_figure: Figure, scenario: Scenario | None, place: Place) -> Findings:
    """Time what Python imports until it listens."""
    assert scenario is not None
    log = place.folder / scenario.name / f"{OURS}.log"
    with Sink(place.cores.load) as sink:
        began = time.monotonic()
        variables = {"PYTHONPROFILEIMPORTTIME": "1"}
        with place.start(OURS, scenario, sink.port, environment=variables) as server:
            elapsed_ms = (time.monotonic() - began) * 1e3
            server.process.stop()
        said = log.read_text(encoding="utf-8", errors="replace")
    modules = sorted(
        ((int(own) / 1e3, int(all_) / 1e3, name) for own, all_, name in _IMPORT.findall(said)), reverse=True
    )
    total = sum(own for own, _, _ in modules)
    found: dict[str, float] = defaultdict(float)
    for own, _, name in modules:
        found[name.partition(".")[0]] += own
    packages = sorted(found.items(), key=lambda pair: pair[1], reverse=True)
    top = [f"{ms:.1f} ms imports of {name}" for name, ms in packages]
    lines = [f"{elapsed_ms:.1f} ms until it listens, slowed by the timing; {total:.1f} ms of it imports"]
    lines += ["", "ms     package", *(f"{ms:5.1f}  {name}" for name, ms in packages[:_MOST_ROWS])]
    lines += ["", "ms     with what it imports  module"]
    lines += [f"{own:5.1f}  {all_:19.1f}  {name}" for own, all_, name in modules[:_MOST_ROWS]]
    return Findings("Python's import times", top, "\n".join(lines) + "\n")


def _memory(figure: Figure, scenario: Scenario | None, place: Place) -> Findings:
    """See which mappings are resident, idle or at the end of the load."""
    assert scenario is not None
    with Sink(place.cores.load) as sink, place.start(OURS, scenario, sink.port) as server:
        time.sleep(_SETTLE_S)
        if figure.items is not None:
            load = _load(figure, scenario, place)
            if figure.kind == "overload_rss":
                sink.tell("stop")
            load.send(server.port, duration_s=_OVERLOAD_S)
        found = resident_by_mapping(server.pid)
        sink.tell("ok")
    total = sum(found.values())
    top = [f"{size / 1e6:.1f} MB {name}" for name, size in found.most_common()]
    lines = [f"{total / 1e6:.1f} MB resident", "", "MB     mapping"]
    lines += [f"{size / 1e6:5.1f}  {name}" for name, size in found.most_common(_MOST_ROWS)]
    return Findings("resident memory by mapping", top, "\n".join(lines) + "\n")


def _bytes(figure: Figure, _scenario: Scenario | None, _place: Place) -> Findings:
    """See what each level of the compressor would make of the same batches."""
    name = figure.scenario.partition(" ")[0]
    found = compression.levels(None if name == "generated" else name)
    top = [f"level {each.level}: {each.bytes:.1f} B, {each.cpu_us:.2f} us a span" for each in found]
    lines = ["level  B a span  us of CPU a span"]
    lines += [f"{each.level:5}  {each.bytes:8.1f}  {each.cpu_us:16.2f}" for each in found]
    wanted = [line for line, each in zip(top, found, strict=True) if each.bytes <= figure.value]
    return Findings("libzstd alone on the same batches", wanted or top, "\n".join(lines) + "\n")


Witness = Callable[[Figure, Scenario | None, Place], Findings]
_CPU_KINDS = ("cpu", "throughput", "advantage", "cpu_ratio", "idle_cpu")
_LATENCY_KINDS = ("latency_p50", "latency_p99", "latency_p99_9", "added_p50", "added_p99")
_WITNESSES: dict[str, Witness] = {
    **dict.fromkeys((*_CPU_KINDS, *_LATENCY_KINDS), _cpu),
    **dict.fromkeys(("idle_rss", "peak_rss", "overload_rss"), _memory),
    **dict.fromkeys(("packed", "packed_cpu"), _bytes),
    "instructions": _instructions,
    "start": _start,
}
_ASPECTS = {
    **dict.fromkeys(("idle_rss", "peak_rss", "overload_rss"), "memory"),
    **dict.fromkeys(("packed", "packed_cpu"), "bytes"),
    "instructions": "instructions",
    "start": "start",
}
