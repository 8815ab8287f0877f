"""What a configuration finds around it when it is started: addresses to listen at, and files of certificates.

A section that listens has a method `listens_at`, which yields (key, transport, endpoint) for each address.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from collector.config.decode import keys_of
from collector.config.syntax import join
from collector.config.tls import TLS, TLSClient
from collector.config.values import split_address
from collector.errors import Problem, TLSFailure
from collector.lean import Any, NamedTuple, is_record

_ANY = ("0.0.0.0", "::")


class Address(NamedTuple):
    """Where something listens, and which path of the configuration says so."""

    path: str
    transport: str
    endpoint: str


def addresses(path: str, config: Any) -> Iterator[Address]:
    """Yield each address at which the component of config at path listens."""
    for below, section in _sections(path, config):
        if hasattr(section, "listens_at"):
            for key, transport, endpoint in section.listens_at():
                yield Address(join(below, key), transport, endpoint)


def clashes(found: Iterable[Address]) -> Iterator[Problem]:
    """Yield each address that one before it leaves no room for."""
    taken: list[tuple[Address, list[tuple[str, str]], int]] = []
    for address in found:
        hosts, port = _hosts(address)
        for other, their_hosts, their_port in taken:
            if port == their_port and any(_overlap(mine, theirs) for mine in hosts for theirs in their_hosts):
                yield Problem(
                    address.path,
                    f"expected an address of its own, got {address.endpoint!r}, where {other.path} listens"
                    + (f" at {other.endpoint!r}" if other.endpoint != address.endpoint else ""),
                )
                break
        taken.append((address, hosts, port))


def unreadable(path: str, config: Any) -> Iterator[Problem]:
    """Yield what keeps the certificates and keys that the component of config names from being read."""
    for below, section in _sections(path, config):
        if isinstance(section, TLS) and not (isinstance(section, TLSClient) and section.is_off):
            try:
                section.read()
            except TLSFailure as error:
                yield Problem(below, str(error))


def _sections(path: str, config: Any) -> Iterator[tuple[str, Any]]:
    if is_record(type(config)):
        yield path, config
        for key in keys_of(type(config)).values():
            yield from _sections(join(path, key.name), getattr(config, key.field))


def _hosts(address: Address) -> tuple[list[tuple[str, str]], int]:
    """Return (family, host) of each socket, and the port; none for port 0, which any number may ask for."""
    if address.transport == "unix":
        return [("unix", address.endpoint)], -1
    try:
        host, port = split_address(address.endpoint)
    except ValueError:  # is told where it is used
        return [], 0
    if not port:
        return [], 0
    families = {"tcp4": ("4",), "tcp6": ("6",)}.get(address.transport, ("4", "6"))
    if not host:
        return [(family, _ANY[family == "6"]) for family in families], port
    if host == "localhost":
        return [("4", "127.0.0.1") if "4" in families else ("6", "::1")], port
    if ":" in host:
        return [("6", host.lower())], port
    is_number = host.replace(".", "").isdecimal()
    return [("4" if is_number else "name", host)], port


def _overlap(mine: tuple[str, str], theirs: tuple[str, str]) -> bool:
    family, host = mine
    return family == theirs[0] and (host == theirs[1] or host in _ANY or theirs[1] in _ANY)
