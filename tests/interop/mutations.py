"""Requests made at random and then damaged at random, from a seed: protobuf and JSON for the fuzzing of both."""

from __future__ import annotations

import copy
import json
import math
import random
from collections.abc import Callable
from typing import Any

from collector.ids import Signal
from collector.native.json import otlp_to_json
from tests.conformance.bodies import varint
from tests.support import otlp

_IDS = {"trace_id": 16, "span_id": 8, "parent_span_id": 8}
_TEXTS = [
    "",
    "a",
    "sampling.priority",
    "\u00e9\u4e16\U0001f600",
    "x" * 200,
    "\0",
    "a=1,ot=th:8",
    '\n"\\/\x7f',
]
_DOUBLES = [0.0, 1.5, 1e308, 5e-324, math.inf, -math.inf, 0.1, 1e21, 1e-7, 123456789.0, 2.0**63]
_DEEPEST = 9


# ------------------------------------------------------------------------------------------------- messages


def message(rng: random.Random, signal: Signal) -> Any:
    """Return a request in which any field of OTLP may have any value of its type."""
    request = otlp.REQUESTS[signal]()
    while not any(otlp.items(request)):
        request.Clear()
        _fill(rng, request, 0)
    return request


def _fill(rng: random.Random, node: Any, depth: int) -> None:
    for field in node.DESCRIPTOR.fields:
        is_spine = depth < 4 and field.message_type is not None and field.is_repeated
        if rng.random() > (0.8 if is_spine else 0.4) or (field.message_type is not None and depth > _DEEPEST):
            continue
        # Indexes into a dictionary that only profiles have.
        if field.name.endswith("_strindex"):
            continue
        if field.message_type is not None:
            children = (
                [getattr(node, field.name).add() for _ in range(rng.choice((1, 1, 2)))]
                if field.is_repeated
                else []
            )
            if not field.is_repeated:
                getattr(node, field.name).SetInParent()
                children = [getattr(node, field.name)]
            for child in children:
                _fill(rng, child, depth + 1)
        elif field.is_repeated:
            getattr(node, field.name).extend(_scalar(rng, field) for _ in range(rng.choice((1, 2, 5))))
        else:
            setattr(node, field.name, _scalar(rng, field))


def _scalar(rng: random.Random, field: Any) -> Any:
    kind = field.cpp_type
    if field.name in _IDS:
        return rng.choice((rng.randbytes(_IDS[field.name]), rng.randbytes(_IDS[field.name]), b""))
    if kind == field.CPPTYPE_STRING:
        return rng.randbytes(rng.randrange(5)) if field.type == field.TYPE_BYTES else rng.choice(_TEXTS)
    if kind == field.CPPTYPE_ENUM:
        return rng.choice([*field.enum_type.values_by_number])
    if kind == field.CPPTYPE_BOOL:
        return rng.random() < 0.5
    if kind in (field.CPPTYPE_DOUBLE, field.CPPTYPE_FLOAT):
        return rng.choice(_DOUBLES)
    bits = 64 if kind in (field.CPPTYPE_INT64, field.CPPTYPE_UINT64) else 32
    is_signed = kind in (field.CPPTYPE_INT64, field.CPPTYPE_INT32)
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if is_signed else (0, 2**bits - 1)
    return rng.choice((0, 1, low, high, rng.randint(low, high), rng.randrange(1000)))


# ------------------------------------------------------------------------------------------------- protobuf


def protobuf(rng: random.Random, signal: Signal) -> bytes:
    """Return a request, damaged more often than not."""
    body = message(rng, signal).SerializeToString()
    for _ in range(rng.choice((0, 1, 1, 2, 4))):
        body = rng.choice(_DAMAGES)(rng, body)
    return body


def _flip(rng: random.Random, body: bytes) -> bytes:
    at = rng.randrange(len(body))
    return body[:at] + bytes([body[at] ^ 1 << rng.randrange(8)]) + body[at + 1 :]


def _replace(rng: random.Random, body: bytes) -> bytes:
    at = rng.randrange(len(body))
    return body[:at] + bytes([rng.choice((0, 1, 8, 0x0A, 0x12, 0x7F, 0x80, 0xFF))]) + body[at + 1 :]


def _cut(rng: random.Random, body: bytes) -> bytes:
    at = rng.randrange(len(body))
    return body[:at] + body[at + rng.randrange(1, 9) :] or b"\n"


def _repeat(rng: random.Random, body: bytes) -> bytes:
    at = rng.randrange(len(body))
    end = at + rng.randrange(1, 40)
    return body[:end] + body[at:]


def _insert(rng: random.Random, body: bytes) -> bytes:
    at = rng.randrange(len(body))
    field = rng.randrange(1, 20)
    pieces = (
        varint(field << 3) + varint(rng.getrandbits(rng.choice((7, 32, 64)))),
        varint(field << 3 | 1) + rng.randbytes(8),
        varint(field << 3 | 5) + rng.randbytes(4),
        varint(field << 3 | 2) + varint(3) + b"abc",
    )
    return body[:at] + rng.choice(pieces) + body[at:]


def _twice(_: random.Random, body: bytes) -> bytes:
    return body + body


def _truncate(rng: random.Random, body: bytes) -> bytes:
    return body[: rng.randrange(len(body))] or b"\n"


_DAMAGES: list[Callable[[random.Random, bytes], bytes]] = [
    _flip,
    _replace,
    _cut,
    _repeat,
    _insert,
    _twice,
    _truncate,
]


class Malformed(Exception):
    """No protobuf."""


def oddities(signal: Signal, body: bytes) -> set[str]:
    """Return what differences.md and its notes list of a protobuf body: such bodies are compared in the tables.

    A body that ends in disorder may be odd before that.
    """
    found: set[str] = set()
    try:
        _walk(otlp.REQUESTS[signal].DESCRIPTOR, body, found)
    except Malformed:
        found.add("malformed")
    return found


def _walk(descriptor: Any, body: bytes, found: set[str]) -> None:
    at = 0
    while at < len(body):
        tag, at = _read_varint(body, at, found)
        number, wire_type = tag >> 3, tag & 7
        if number >= 1 << 29:
            found.add("field number")
        if wire_type in (3, 4):
            found.add("group")
            raise Malformed
        if not number or wire_type > 5:
            raise Malformed
        field = descriptor.fields_by_number.get(number)
        if number == 1000 and descriptor.name in ("ResourceSpans", "ResourceMetrics", "ResourceLogs"):
            found.add("scopes of old")
        if field is not None and wire_type not in wire_types(field):
            found.add("wire type")
        if field is not None and field.name.endswith("_strindex"):
            found.add("dictionary")
        if wire_type == 0:
            _, at = _read_varint(body, at, found)
            continue
        if wire_type == 2:
            length, start = _read_varint(body, at, found)
            at = start + length
            content = body[start:at]
        else:
            start, at = at, at + (8 if wire_type == 1 else 4)
            content = b""
        if at > len(body):
            raise Malformed
        if field is None or wire_type != 2:
            continue
        if field.message_type is not None:
            _walk(field.message_type, content, found)
        elif field.type == field.TYPE_STRING:
            try:
                content.decode()
            except UnicodeDecodeError:
                found.add("no UTF-8")


def wire_types(field: Any) -> set[int]:
    """Return those that values of the field can have."""
    fixed64 = {field.TYPE_FIXED64, field.TYPE_SFIXED64, field.TYPE_DOUBLE}
    fixed32 = {field.TYPE_FIXED32, field.TYPE_SFIXED32, field.TYPE_FLOAT}
    if field.type in (field.TYPE_STRING, field.TYPE_BYTES, field.TYPE_MESSAGE):
        return {2}
    own = 1 if field.type in fixed64 else 5 if field.type in fixed32 else 0
    return {own, 2} if field.is_repeated else {own}


def _read_varint(body: bytes, at: int, found: set[str]) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(body):
            raise Malformed
        byte = body[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >= 1 << 64:
                found.add("varint")
            return value, at
    raise Malformed


# ------------------------------------------------------------------------------------------------- JSON

_VALUES: list[Any] = [
    *(0, 1, -1, 2**31, 2**32, 2**63, 2**64, 1.5, 1e300, "", "1", "-1", "x", "1.5", "Infinity", "-Infinity"),
    *(True, False, [], {}, [[]], [{}], [1], {"a": 1}, "00f067aa0ba902b7", "4bf92f3577b34da6a3ce929d0e0e4736"),
]  # fmt: skip

_LENIENT = ("kind", "code", "severityNumber", "aggregationTemporality", "bytesValue")
"""Where we read texts, as protobuf's mapping does, and the Collector does not: differences.md lists them."""


def json_text(rng: random.Random, signal: Signal) -> str:
    """Return a request as OTLP/JSON, damaged more often than not, in its tree or in its text."""
    tree = json.loads(otlp_to_json(signal, message(rng, signal).SerializeToString()))
    for _ in range(rng.choice((0, 1, 1, 2))):
        _change_node(rng, tree)
    text = json.dumps(tree, ensure_ascii=rng.random() < 0.5, indent=rng.choice((None, None, 1)))
    if rng.random() < 0.25:
        at = rng.randrange(len(text))
        piece = rng.choice(("", "", '"', "{", "}", "[", "]", ",", ":", "0", "-", "e", "\\", " ", "\u00e9"))
        text = text[:at] + piece + text[at + rng.randrange(2) :]
    return text


def _change_node(rng: random.Random, tree: Any) -> None:
    parents = list(_parents(tree))
    if not parents:
        return
    parent = rng.choice(parents)
    value = copy.deepcopy(rng.choice(_VALUES))
    if isinstance(parent, list):
        parent[rng.randrange(len(parent))] = value
        return
    key = rng.choice([*parent])
    if key in _LENIENT:
        value = rng.choice((7, True, [], {}))
    match rng.randrange(5):
        case 0:
            del parent[key]
        case 1:  # to snake case
            parent["".join(f"_{c.lower()}" if c.isupper() else c for c in key)] = parent.pop(key)
        case 2:
            parent[rng.choice((key.lower(), key.capitalize(), key + " ", "unknown"))] = parent.pop(key)
        case _:
            parent[key] = value


def _parents(node: Any) -> Any:
    if node and isinstance(node, dict | list):
        yield node
        for child in node.values() if isinstance(node, dict) else node:
            yield from _parents(child)
