"""The sampler once more, slow and plain, from the text of its specification: the oracle of the differential tests."""

from __future__ import annotations

import dataclasses
import math
import re
import struct
from collections.abc import Callable
from fractions import Fraction
from typing import Any

NEVER = 1 << 56
ALL_ONES = NEVER - 1

_KEY = re.compile(r"(?:[a-z][a-z0-9_\-*/]*|[a-z0-9][a-z0-9_\-*/]*@[a-z][a-z0-9_\-*/]*)\Z")
_VALUE = re.compile(r"[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]\Z")
_OT = re.compile(r"[a-z][a-z0-9]*:[A-Za-z0-9._\-]*(?:;[a-z][a-z0-9]*:[A-Za-z0-9._\-]*)*\Z")
_HEX = re.compile(r"[0-9a-fA-F]+\Z")
_FLOAT = re.compile(
    r"[+-]?(?:(?:D+\.?D*|\.D+)(?:[eE][+-]?D+)?|0[xX]_?(?:H+\.?H*|\.H+)[pP][+-]?D+)\Z".replace(
        "D+", r"\d(?:_?\d)*"
    )
    .replace("D*", r"(?:\d(?:_?\d)*)?")
    .replace("H+", r"[\da-fA-F](?:_?[\da-fA-F])*")
    .replace("H*", r"(?:[\da-fA-F](?:_?[\da-fA-F])*)?")
)


def float32(number: float) -> float:
    """Return number rounded to float32."""
    return float(struct.unpack("<f", struct.pack("<f", number))[0])


def fnv1a(data: bytes) -> int:
    """Return the 32-bit FNV-1a hash."""
    state = 0x811C9DC5
    for byte in data:
        state = (state ^ byte) * 0x01000193 & 0xFFFFFFFF
    return state


def hash_randomness(seed: int, data: bytes) -> int:
    """Return hash_seed's R."""
    h32 = fnv1a(struct.pack("<I", seed) + data)
    bucket, top = h32 & 0x3FFF, h32 >> 18
    return (0x3FFF - bucket) << 42 | (top ^ top << 10) << 14 | bucket


def threshold(probability: float, precision: int) -> int | None:
    """Return T, None out of range."""
    if not 2**-56 <= probability <= 1:
        return None
    if probability == 1:
        return 0
    kept, dropped = math.frexp(probability)[1], math.frexp(1 - probability)[1]
    digits = min(14, max(precision + int(kept / -4), precision + int(dropped / -4)))
    exact = NEVER - math.floor(Fraction(probability) * NEVER + Fraction(1, 2))
    shift = 4 * (14 - digits)
    return (exact + (1 << shift - 1)) >> shift << shift if shift else exact


def threshold_text(value: int) -> str:
    """Return th's text."""
    return f"{value:014x}".rstrip("0") or "0"


def parse_float(text: str) -> float | None:
    """Return what Go's ParseFloat makes of text; None for an error."""
    if re.fullmatch(r"[+-]?(inf|infinity)|nan", text, re.IGNORECASE | re.ASCII):
        return float(text)
    if not text.isascii() or not _FLOAT.match(text):
        return None
    plain = text.replace("_", "")
    try:
        value = float.fromhex(plain) if "x" in plain.lower() else float(plain)
    except OverflowError:
        return None
    return None if math.isinf(value) else value


class Unreadable(Exception):
    """Sampling information that breaks its grammar."""


def _randomness(text: str) -> int:
    if len(text) != 14 or not _HEX.match(text):
        raise Unreadable
    return int(text, 16)


def _threshold(text: str) -> int:
    if not 1 <= len(text) <= 14 or not _HEX.match(text):
        raise Unreadable
    return int(text, 16) << 4 * (14 - len(text))


@dataclasses.dataclass
class Carrier:
    """Sampling information of an item as texts; other is what a tracestate holds beside."""

    rv: str = ""
    th: str = ""
    ot: list[str] = dataclasses.field(default_factory=list)
    others: list[str] = dataclasses.field(default_factory=list)
    problem: bool = False

    @classmethod
    def from_tracestate(cls, text: str) -> Carrier:
        """Return what text says; with a problem, what of it can be used."""
        if len(text) > 1024:
            return cls(problem=True)
        members = text.split(",")
        if text.endswith(","):
            members.pop()
        members = [member.strip(" \t") for member in members] if text else []
        for member in filter(None, members):
            key, _, value = member.partition("=")
            if not _KEY.match(key) or not _VALUE.match(value):
                return cls(problem=True)
        carrier = cls(problem=len(members) >= 32)
        for member in filter(None, members[:31]):
            key, _, value = member.partition("=")
            tenant, _, system = key.partition("@")
            if len(key) > 256 or ("@" in key and (len(tenant) > 241 or len(system) > 14)):
                carrier.problem = True
            elif key == "ot":
                carrier._read_ot(value)
            else:
                carrier.others.append(member)
        return carrier

    def _read_ot(self, value: str) -> None:
        self.rv, self.th, self.ot = "", "", []
        if not _OT.match(value):
            self.problem = True
            return
        for pair in value.split(";"):
            key, _, text = pair.partition(":")
            try:
                if key == "rv":
                    self.rv = ""
                    _randomness(text)
                    self.rv = text
                elif key == "th":
                    self.th = ""
                    _threshold(text)
                    self.th = text
                else:
                    self.ot.append(pair)
            except Unreadable:
                self.problem = True

    @classmethod
    def from_attributes(cls, th: Any, rv: Any) -> Carrier:
        """Return what a log record's two attributes say; anything but a text is nothing."""
        carrier = cls()
        for name, value, parse in (("th", th, _threshold), ("rv", rv, _randomness)):
            if isinstance(value, str) and value:
                try:
                    parse(value)
                    setattr(carrier, name, value)
                except Unreadable:
                    carrier.problem = True
        return carrier

    def tracestate(self) -> str:
        """Return the header value."""
        pairs = [f"rv:{self.rv}"] * bool(self.rv) + [f"th:{self.th}"] * bool(self.th) + self.ot
        return ",".join(["ot=" + ";".join(pairs)] * bool(pairs) + self.others)


@dataclasses.dataclass
class Outcome:
    """The decision on one item; carrier is None where the item stays as it is."""

    kept: bool
    policy: str
    carrier: Carrier | None


Priority = Callable[[], int | None]


@dataclasses.dataclass(frozen=True)
class Oracle:
    """The sampler for one configuration."""

    mode: str
    percentage: float
    seed: int = 0
    precision: int = 4
    fail_closed: bool = True

    def decide(
        self,
        trace_id: bytes,
        carrier: Carrier,
        priority: Priority,
        source: tuple[str, bytes] | None,
        is_log: bool,
    ) -> Outcome:
        """Return the outcome.

        Args:
            priority: gives the threshold that priority demands, None for none.
            source: name of what is hashed and its bytes, None for missing randomness.
        """
        percentage = min(float32(self.percentage), 100.0)
        buckets = int(float32(percentage * float32(163.84)))
        ratio = max(percentage / 100, 2**-56)
        usable: Carrier | None = carrier
        randomness, policy = ALL_ONES, "missing_randomness"
        bad = carrier.problem
        if percentage == 0 or (self.mode == "hash_seed" and buckets == 0):
            policy, decided = "sampling_priority", NEVER
        elif self.mode == "hash_seed":
            decided = (16384 - buckets) << 42
            if source:
                policy, randomness = source[0], hash_randomness(self.seed, source[1])
            if carrier.problem or carrier.rv or carrier.th:
                bad, usable = True, None
            elif source or not is_log:
                carrier.rv = f"{randomness:014x}"
            bad = bad or not source
        else:
            if carrier.problem:
                usable = None
            elif carrier.rv:
                policy, randomness = "sampling_randomness", int(carrier.rv, 16)
            elif any(trace_id):
                policy, randomness = "trace_id_w3c", int.from_bytes(trace_id[9:], "big")
            else:
                bad = True
            if not bad and carrier.th and _threshold(carrier.th) > randomness:
                carrier.th, bad = "", True
            incoming = _threshold(carrier.th) if carrier.th else None
            if self.mode == "equalizing":
                own = threshold(ratio, self.precision)
                decided = max(NEVER if own is None else own, incoming or 0)
            else:
                arriving = 1.0 if incoming is None else (NEVER - incoming) / NEVER
                product = threshold(arriving * ratio, self.precision)
                decided = NEVER if product is None else product
        if bad:
            decided = NEVER if self.fail_closed else 0
        wanted = priority()
        if wanted is not None:
            decided, policy = wanted, "sampling_priority"
        kept = decided <= randomness
        if kept and usable and not (usable.th and _threshold(usable.th) > decided):
            usable.th = threshold_text(decided)
        return Outcome(kept, policy, usable)
