"""Texts that stand for values: durations as Go writes them, addresses and URLs, and the nearest of known words.

Source: Go, package time, ParseDuration and Duration.String.
"""

from __future__ import annotations

from collections.abc import Iterable

from collector.config.fields import Duration
from collector.lean import TYPE_CHECKING

if TYPE_CHECKING:
    import _socket

_UNITS_NS = {
    "ns": 1,
    "us": 1_000,
    "\u00b5s": 1_000,  # the micro sign, and the Greek letter
    "\u03bcs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_DIGITS = "0123456789"
_MAX_NS = 2**63 - 1
_MAX_LENGTH = 64


def parse_duration(text: str) -> Duration:
    """Return the seconds of text, such as `200ms` or `1h2m3.5s`.

    Raises:
        ValueError: in Go's words, such as `missing unit in duration "5"`.
    """
    total_ns = 0
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return Duration(0.0)
    if not rest or len(text) > _MAX_LENGTH:
        raise ValueError(f'invalid duration "{text[:_MAX_LENGTH]}"')
    while rest:
        whole, rest = _split_digits(rest)
        fraction, rest = _split_digits(rest[1:]) if rest[:1] == "." else ("", rest)
        if not whole and not fraction:
            raise ValueError(f'invalid duration "{text}"')
        unit = rest[: next((index for index, mark in enumerate(rest) if mark in f"{_DIGITS}."), len(rest))]
        if not unit:
            raise ValueError(f'missing unit in duration "{text}"')
        unit_ns = _UNITS_NS.get(unit)
        if unit_ns is None:
            raise ValueError(f'unknown unit "{unit}" in duration "{text}"')
        total_ns += int(whole + fraction) * unit_ns // 10 ** len(fraction)
        rest = rest[len(unit) :]
    if total_ns > _MAX_NS:
        raise ValueError(f'invalid duration "{text}"')
    return Duration((-total_ns if text[0] == "-" else total_ns) / 1e9)


def _split_digits(text: str) -> tuple[str, str]:
    """Return the digits with which text begins, and what follows."""
    rest = text.lstrip(_DIGITS)
    return text[: len(text) - len(rest)], rest


def format_duration(seconds: float) -> str:
    """Return seconds as a duration text, exact to the nanosecond: `1h2m3.5s`, `200ms`, `0s`."""
    total_ns = round(abs(seconds) * 1e9)
    sign = "-" if seconds < 0 and total_ns else ""
    if total_ns == 0:
        return "0s"
    for unit in ("ns", "us", "ms"):
        if total_ns < _UNITS_NS[unit] * 1000:
            return sign + _decimal(total_ns, _UNITS_NS[unit]) + unit
    hours, rest_ns = divmod(total_ns, _UNITS_NS["h"])
    minutes, rest_ns = divmod(rest_ns, _UNITS_NS["m"])
    parts = [f"{hours}h"] if hours else []
    if hours or minutes:
        parts.append(f"{minutes}m")
    parts.append(_decimal(rest_ns, _UNITS_NS["s"]) + "s")
    return sign + "".join(parts)


def _decimal(value: int, unit: int) -> str:
    whole, rest = divmod(value, unit)
    digits = len(str(unit)) - 1
    return f"{whole}.{rest:0{digits}}".rstrip("0") if rest else str(whole)


def split_address(text: str) -> tuple[str, int]:
    """Return host and port of `host:port` or `[v6]:port`; the host may be empty, the port 0.

    Raises:
        ValueError: text is neither.
    """
    host, colon, port = text.rpartition(":")
    if "@" in text:
        raise ValueError(f"expected host:port without user and password, got '***@{text.rpartition('@')[2]}'")
    if not colon or "/" in text or text.endswith("]"):
        raise ValueError(f"expected host:port, got {text!r}")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"expected host:port, got {text!r}; write an IPv6 address in brackets")
    if not (port.isascii() and port.isdecimal() and int(port) < 65536):
        raise ValueError(f"expected a port from 0 to 65535 in {text!r}, got {port!r}")
    return host, int(port)


def hide_credentials(url: str) -> str:
    """Return url with the user and the password in it as `***`; a text that is no URL comes back as it is."""
    scheme, separator, rest = url.partition("://")
    n_authority = next((index for index, mark in enumerate(rest) if mark in "/?#"), len(rest))
    authority = rest[:n_authority]
    _, colon, port = authority.rpartition(":")
    if "@" not in authority and colon and not port.isdecimal() and not port.endswith("]"):
        authority = rest  # a password with a slash in it, which should have been escaped
    host = authority.rpartition("@")[2]
    if host == authority:
        return url
    return f"{scheme}{separator}***@{host}{rest[len(authority) :]}"


def format_address(listener: _socket.socket) -> str:
    """Return the address that listener is bound to, as one would write it in an endpoint."""
    name = listener.getsockname()
    if not isinstance(name, tuple):
        return name.decode() if isinstance(name, bytes) else str(name)
    host, port = name[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that word was probably meant to be."""
    from collector.config.spelling import nearest as find  # needed for errors only

    return find(word, known)
