"""Listening sockets that outlive the component that asked for them, so that a reload refuses nobody.

A socket belongs to an owner, such as one receiver of the configuration. The next instance of that owner is given the
socket of the one before; two owners never share one, so their clash is the error it should be.
"""

from __future__ import annotations

import _socket as socket  # `socket` makes enums of all constants, and imports `selectors`
import errno
import os
import stat
from collections.abc import Sequence

from collector.config.values import split_address
from collector.errors import StartError
from collector.lean import Any, suppress
from collector.threads import Lock

_BACKLOG = 4096
_FAMILIES = {"tcp": socket.AF_UNSPEC, "tcp4": socket.AF_INET, "tcp6": socket.AF_INET6}


class _Shared:
    __slots__ = ("_file", "key", "socket", "users")

    def __init__(self, key: tuple[str, str, str, bool], listener: socket.socket) -> None:
        self.key = key
        self.socket = listener
        self.users = 0
        self._file = self._file_now()

    def is_there(self) -> bool:
        """Tell whether clients find it: others may have deleted or replaced the file of a unix socket."""
        return self._file == self._file_now()

    def close(self) -> None:
        """Close the socket; remove its file, unless it has become that of another."""
        path = self._path()
        if path and self.is_there():
            with suppress(OSError):
                os.unlink(path)
        self.socket.close()

    def _path(self) -> str:
        name = self.socket.getsockname() if self.socket.family == socket.AF_UNIX else ""
        return name if isinstance(name, str) else ""  # bytes are an abstract name

    def _file_now(self) -> tuple[int, int] | None:
        path = self._path()
        try:
            found = os.stat(path) if path else None
        except OSError:
            found = None
        return None if found is None else (found.st_dev, found.st_ino)


class Listeners:
    """All listening sockets of the process, by owner. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._sockets: list[_Shared] = []

    def view(self, owner: str) -> ListenerView:
        """Return what one instance of owner gets its sockets from."""
        return ListenerView(self, owner)

    def acquire(
        self, owner: str, transport: str, endpoint: str, held: Sequence[_Shared], *, listens: bool
    ) -> _Shared:
        """Return the owner's socket for endpoint, unless it is in held, or bind one."""
        key = (owner, transport, endpoint, listens)
        with self._lock:
            left = [shared for shared in self._sockets if shared.key[0] == owner and shared not in held]
            shared = next((known for known in left if known.key == key and known.is_there()), None)
            if shared is None:
                try:
                    listener = _open(transport, endpoint, [known.socket for known in left], listens=listens)
                except OSError as error:
                    raise StartError(owner, f"listen {transport} {endpoint}: {error}") from error
                shared = _Shared(key, listener)
                self._sockets.append(shared)
            shared.users += 1
            return shared

    def release(self, shared: _Shared) -> None:
        """Close the socket if this was its last user."""
        with self._lock:
            shared.users -= 1
            if not shared.users:
                self._sockets.remove(shared)
                shared.close()


class ListenerView:
    """The sockets of one instance."""

    def __init__(self, listeners: Listeners, owner: str) -> None:
        self._listeners = listeners
        self._owner = owner
        self._held: list[_Shared] = []

    def are_there(self) -> bool:
        """Tell whether clients find all sockets of the instance."""
        return all(shared.is_there() for shared in self._held)

    def get(self, transport: str, endpoint: str) -> socket.socket:
        """Return a bound, listening, non-blocking socket for the caller to dup.

        Args:
            transport: `tcp`, `tcp4`, `tcp6` or `unix`.
            endpoint: `host:port`, where an empty host is every address and port 0 a free one; or a path.

        Raises:
            StartError: it cannot be bound.
        """
        return self._acquire(transport, endpoint, listens=True)

    def reserve(self, transport: str, endpoint: str) -> socket.socket:
        """Return a socket that is bound but does not listen, for a server that opens its own beside it.

        That server binds its address with SO_REUSEPORT; nobody but this owner gets so far.

        Args:
            transport: `tcp`, `tcp4` or `tcp6`.
            endpoint: as for `get`.

        Raises:
            StartError: it cannot be bound.
        """
        return self._acquire(transport, endpoint, listens=False)

    def release(self) -> None:
        """Give all sockets back; safe twice."""
        while self._held:
            self._listeners.release(self._held.pop())

    def _acquire(self, transport: str, endpoint: str, *, listens: bool) -> socket.socket:
        shared = self._listeners.acquire(self._owner, transport, endpoint, self._held, listens=listens)
        self._held.append(shared)
        return shared.socket


def _open(transport: str, endpoint: str, own: Sequence[socket.socket], *, listens: bool) -> socket.socket:
    """Bind endpoint; own are sockets that may be in its way, since they will make room for it."""
    if transport == "unix":
        return _bind(socket.AF_UNIX, endpoint, listens=listens)
    if transport not in _FAMILIES:
        raise OSError(f"unknown network {transport}")
    try:
        host, port = split_address(endpoint)
    except ValueError as error:
        raise OSError(str(error)) from error
    family = _FAMILIES[transport]
    is_dual = not host and family == socket.AF_UNSPEC and _has_dual_stack()
    if not host:
        host = "::" if is_dual or family == socket.AF_INET6 else "0.0.0.0"
    try:
        # Bytes, since text would load the tables of international names, a megabyte.
        found = socket.getaddrinfo(host.encode("ascii"), port, family, socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as error:
        raise OSError(f"lookup {host}: no such host") from error
    # `localhost` means 127.0.0.1 before ::1, as it does for the Collector.
    family, _type, _protocol, _name, address = min(found, key=lambda entry: entry[0] != socket.AF_INET)
    return _bind(family, address, listens=listens, is_dual=is_dual, own=own)


def _bind(
    family: int,
    address: Any,
    *,
    listens: bool,
    is_dual: bool = False,
    own: Sequence[socket.socket] = (),
) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        if family == socket.AF_UNIX:
            _remove_stale(address)
        else:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not is_dual)
        try:
            listener.bind(address)
        except OSError as error:
            rivals = [rival for rival in own if rival.family != socket.AF_UNIX]
            if error.errno != errno.EADDRINUSE or not rivals:
                raise
            # As when a reload makes 0.0.0.0:4317 of 127.0.0.1:4317: the new one listens beside the old one.
            for each in (listener, *rivals):
                each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            listener.bind(address)
        if listens:
            listener.listen(_BACKLOG)
        else:
            # Only now: nobody else could be at the address, and from here on the owner's server can.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise OSError(f"bind: {_describe(error)}") from error
    return listener


def _has_dual_stack() -> bool:
    """Return whether one socket can serve IPv6 and IPv4, as `socket.has_dualstack_ipv6`."""
    try:
        probe = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
        try:
            probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        finally:
            probe.close()
    except OSError:
        return False
    return True


def _describe(error: OSError) -> str:
    if error.errno is None:
        return str(error)
    text = os.strerror(error.errno)
    return text[:1].lower() + text[1:]


def _remove_stale(path: str) -> None:
    """Remove the socket file of a process that has died; a live one keeps it, and bind then fails."""
    probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        probe.setblocking(False)  # one whose backlog is full lives too
        # A plain file refuses connections too.
        if probe.connect_ex(path) == errno.ECONNREFUSED and stat.S_ISSOCK(os.stat(path).st_mode):
            os.unlink(path)
    finally:
        probe.close()
