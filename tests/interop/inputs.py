"""Generated traffic for the samplers: 10,000 traces plain, 10,000 with all that can speak for or against a decision."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

from tests.support import otlp

N_TRACES = 10_000
REQUEST_ITEMS = 1000

TRACESTATES = (
    ["ot=th:8", "ot=th:c", "ot=th:80000000000000", "ot=th:fd70a", "ot=th:0", "ot=th:e668", "ot=th:FD"]
    + ["ot=rv:FD70A3D70A3D71", "ot=rv:9b8233f7e3a151;th:8", "ot=th:4;rv:c0000000000000", "ot=rv:00000000000001"]
    + ["ot=x:1;th:4;y:2", "ot=th:fffffffffffff8;rv:ffffffffffffff", "ot=rv:40000000000000;th:8", "ot=a:b"]
    + ["ot=th:", "ot=rv:1", "ot=th:g", "ot=a:1;", "ot=", "ot", "ot=th:abababababababab", "ot=th:-1", "ot=A:1"]
    + ["ot=rv:abababababababab", "ot=th:8,ot=th:c", "ot=th:8;th:c", "ot=rv:80000000000000;rv:c0000000000000"]
    + ["vendor=1", " spaced=2 ", "", "\t", "tenant@system=1", "UPPER=1", "key", "c= x", "d=x ", "e=1,e=2", ",,a=1,,"]
    + ["t@" + "s" * 15 + "=1", "t" * 242 + "@s=1", "k" * 257 + "=1", "v=" + "x" * 256, "v=" + "x" * 257]
    + ["a=1,ot=th:8,b=2", "a=1,ot=rv:c0000000000000;x:y,b=2", "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"]
    + [",".join(f"k{number}=1" for number in range(count)) for count in (30, 31, 32, 33)]
    + ["ot=th:8," + ",".join(f"k{number}=1" for number in range(31))]
    + ["a=" + "x" * 250 + "," + "b=" + "y" * 250 + ",c=" + "z" * 250 + ",d=" + "w" * size for size in (255, 256)]
    + ["ot=x:" + "v" * 249, "ot=x:" + "v" * 250 + ";th:8", "ot=th:8 ", "ot= th:8", "ot=th:8\x7f", "ot=th:\u00e9"]
)  # fmt: skip


def value(content: Any) -> AnyValue:
    """Return an AnyValue of the type of content; None is an unset one."""
    if content is None:
        return AnyValue()
    if isinstance(content, list):
        return AnyValue(array_value=ArrayValue(values=map(value, content)))
    if isinstance(content, dict):
        return AnyValue(
            kvlist_value=KeyValueList(values=[KeyValue(key=k, value=value(v)) for k, v in content.items()])
        )
    types = {
        bool: "bool_value",
        int: "int_value",
        float: "double_value",
        bytes: "bytes_value",
        str: "string_value",
    }
    return AnyValue(**{types[type(content)]: content})


PRIORITIES = [
    *(0, 1, -1, 2, 100, 101, 2**62, -(2**63), 0.0, -0.0, 0.5, 1e-18, 99.999, 100.1, -0.5, float("nan"), float("inf")),
    *(float("-inf"), True, False, b"1", None, [1], {"a": 1}),
    *("0", "1", "2.5", "-1", "x", "", " 1", "1 ", "1_0", "1e400", "1e-400", "0x0p1", "0x1p-2", "0x1", "+1", "-0", "."),
    *("1.", ".5", "inf", "-inf", "nan", "NaN", "infinity", "1e5", "1E+2", "\u0661", "0b1", "0o7", "00", "1__0", "_1"),
    *("0x_1p0", "0x1.8p1", "1e", "e1", "1.2.3", "Infinit", "--1", "1e99999999999", "0" * 100 + "1"),
]  # fmt: skip


def trace_ids(rng: random.Random) -> Iterator[bytes]:
    """Yield ids without end: random ones, counting ones, with a high or a low half of zeros, with constant halves."""
    for number in itertools.count(1):
        match number % 8:
            case 1:
                yield number.to_bytes(16, "big")
            case 2:
                yield bytes(8) + rng.randbytes(8)
            case 3:
                yield rng.randbytes(8) + bytes(8)
            case 4:
                yield b"\xfe" * 8 + rng.randbytes(8)
            case _:
                yield rng.randbytes(16)


def requests(items: Iterable[Any], make: Callable[..., Any]) -> list[bytes]:
    """Return requests of REQUEST_ITEMS items each."""
    return [make(*batch).SerializeToString() for batch in _batched(items, REQUEST_ITEMS)]


def plain_spans(seed: int) -> Iterator[Any]:
    """Yield the spans of N_TRACES traces, most of one span, without any sampling information."""
    rng = random.Random(seed)
    for number, trace_id in zip(range(N_TRACES), trace_ids(rng), strict=False):
        for part in range(rng.choice((1, 1, 1, 2))):
            yield _span(f"plain {number}.{part}", trace_id, rng)


def marked_spans(seed: int) -> Iterator[Any]:
    """Yield a span each of N_TRACES traces with tracestates, `sampling.priority`, zero ids, and all of them at once."""
    rng = random.Random(seed)
    for number, trace_id in zip(range(N_TRACES), trace_ids(rng), strict=False):
        span = _span(f"marked {number}", bytes(16) if rng.random() < 0.03 else trace_id, rng)
        if rng.random() < 0.8:
            span.trace_state = _tracestate(rng)
        if rng.random() < 0.3:
            span.attributes.append(KeyValue(key="sampling.priority", value=value(rng.choice(PRIORITIES))))
            if rng.random() < 0.1:
                span.attributes.append(KeyValue(key="sampling.priority", value=value(rng.choice(PRIORITIES))))
            span.attributes.append(otlp.attribute("after", "x"))
        yield span


HASHED = [
    *("user-1", "", "\u00e9\u4e16", b"\x00\x01\xff", b"", 0, 1, -1, 2**63 - 1, -(2**63), True, False),
    *(0.0, 1.0, -0.0, 0.1, 1e21, 1e20, 1e-7, 1e-6, 123456789.125, float("inf"), float("-inf"), float("nan"), 5e-324),
    None,
]  # fmt: skip


def records(seed: int, name: str, *, marked: bool) -> Iterator[Any]:
    """Yield N_TRACES log records with the attributes that `from_attribute` and `sampling_priority` name.

    Args:
        marked: also with attributes that an earlier sampler leaves, zero and absent trace ids.
    """
    rng = random.Random(seed)
    for number, trace_id in zip(range(N_TRACES), trace_ids(rng), strict=False):
        id = rng.choice((b"", bytes(16))) if marked and rng.random() < 0.2 else trace_id
        record = LogRecord(trace_id=id, time_unix_nano=number, severity_text=f"{name} {number}")
        record.body.string_value = "x"
        if rng.random() < 0.8:
            hashed = rng.choice(HASHED) if rng.random() < 0.5 else f"user-{rng.randrange(5000)}"
            record.attributes.append(KeyValue(key="user", value=value(hashed)))
        if rng.random() < 0.3:
            record.attributes.append(KeyValue(key="priority", value=value(rng.choice(PRIORITIES))))
        if marked and rng.random() < 0.5:
            marks = rng.choice((["th"], ["rv"], ["th", "rv"], ["rv", "th"]))
            for mark in marks:
                record.attributes.append(_mark(mark, rng))
        yield record


def _mark(mark: str, rng: random.Random) -> Any:
    if mark == "th":
        content = rng.choice(
            ["8", "c", "0", "80", "fd70a", "FD", "", "g", "f" * 15, "8" + "0" * 13, 8, None, b"8"]
        )
        return KeyValue(key="sampling.threshold", value=value(content))
    content = rng.choice(
        ["9b8233f7e3a151", "FD70A3D70A3D71", "1", "", "x" * 14, "0" * 14, 1, None, b"9b8233f7e3a151"]
    )
    return KeyValue(key="sampling.randomness", value=value(content))


def _tracestate(rng: random.Random) -> str:
    kind = rng.random()
    if kind < 0.6:
        return ",".join(rng.choices(TRACESTATES, k=rng.choice((1, 1, 1, 2, 3))))
    digits = rng.choice((1, 2, 4, 5, 13, 14))
    threshold = f"{rng.getrandbits(4 * digits):0{digits}x}"
    if kind < 0.8:
        return f"ot=th:{threshold}"
    randomness = f"{rng.getrandbits(56):014x}"
    return f"ot=rv:{randomness};th:{threshold}" if kind < 0.95 else f"ot=rv:{randomness}"


def _span(name: str, trace_id: bytes, rng: random.Random) -> Any:
    return otlp.span(name, trace_id=trace_id, span_id=rng.randbytes(8), kind=2, attributes={"before": 1})


def _batched(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    iterator = iter(items)
    while batch := list(itertools.islice(iterator, size)):
        yield batch
