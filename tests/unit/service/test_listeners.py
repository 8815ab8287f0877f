"""Listening sockets: bound as the Collector binds, shared by successive instances of one owner only."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from collector.config.values import format_address
from collector.errors import StartError
from collector.service.listeners import Listeners


@pytest.fixture
def listeners() -> Listeners:
    return Listeners()


def _can_connect(address: object, family: int = socket.AF_INET) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as client:
        return client.connect_ex(address) == 0  # type: ignore[arg-type]


def test_next_instance_of_the_owner_gets_the_same_socket(listeners: Listeners) -> None:
    """The socket lives until the last instance has let go of it."""
    old, new = listeners.view("in"), listeners.view("in")
    listener = old.get("tcp", "127.0.0.1:0")
    assert listener is new.get("tcp", "127.0.0.1:0")
    address = listener.getsockname()
    old.release()
    old.release()
    assert _can_connect(address)
    new.release()
    assert not _can_connect(address)


def test_one_instance_gets_a_socket_for_each_call(listeners: Listeners) -> None:
    """Two protocols on port 0 are two ports, and a reload finds them in the same order."""
    old, new = listeners.view("in"), listeners.view("in")
    first, second = old.get("tcp", "127.0.0.1:0"), old.get("tcp", "127.0.0.1:0")
    assert first is not second
    assert [first, second] == [new.get("tcp", "127.0.0.1:0"), new.get("tcp", "127.0.0.1:0")]
    old.release()
    new.release()


def test_other_owner_is_refused_the_address(listeners: Listeners) -> None:
    """Two receivers on one port are an error, in the Collector's words."""
    one, two = listeners.view("in"), listeners.view("in/2")
    endpoint = format_address(one.get("tcp", "127.0.0.1:0"))
    one_again = listeners.view("in")
    with pytest.raises(StartError) as caught:
        two.get("tcp", endpoint)
    assert f"listen tcp {endpoint}: bind: address already in use" == caught.value.message
    one.release()
    two.get("tcp", endpoint)
    two.release()
    one_again.release()


def test_reserved_address_is_for_servers_of_its_owner(listeners: Listeners) -> None:
    """Two successive servers that open their own sockets listen beside each other; nobody else gets in."""
    old, new = listeners.view("in"), listeners.view("in")
    address = old.reserve("tcp", "127.0.0.1:0").getsockname()
    assert not _can_connect(address)
    assert address == new.reserve("tcp", "127.0.0.1:0").getsockname()
    with (
        socket.create_server(address, reuse_port=True),
        socket.create_server(address, reuse_port=True),
    ):
        for ask in (listeners.view("in/2").get, listeners.view("in/2").reserve):
            with pytest.raises(StartError, match="address already in use"):
                ask("tcp", f"127.0.0.1:{address[1]}")
    old.release()
    new.release()


def test_owner_may_move_to_an_address_that_covers_its_own(listeners: Listeners) -> None:
    """From 127.0.0.1 to every address by a reload: both sockets listen until the old one is let go."""
    old, new = listeners.view("in"), listeners.view("in")
    port = old.get("tcp", "127.0.0.1:0").getsockname()[1]
    new.get("tcp", f"0.0.0.0:{port}")
    assert _can_connect(("127.0.0.1", port))
    old.release()
    assert _can_connect(("127.0.0.1", port))
    with pytest.raises(StartError, match="address already in use"):
        listeners.view("in/2").get("tcp", f"127.0.0.1:{port}")
    new.release()


def test_one_instance_cannot_take_an_address_twice(listeners: Listeners) -> None:
    """Two protocols on one port are an error even when the addresses differ."""
    view = listeners.view("in")
    port = view.get("tcp", "127.0.0.1:0").getsockname()[1]
    for endpoint in (f"127.0.0.1:{port}", f"0.0.0.0:{port}"):
        with pytest.raises(StartError, match="address already in use"):
            view.get("tcp", endpoint)
    view.release()


def test_socket_is_ready_for_an_event_loop(listeners: Listeners) -> None:
    """It listens, does not block, and is not inherited by child processes."""
    view = listeners.view("in")
    listener = view.get("tcp", "127.0.0.1:0")
    assert not listener.getblocking()
    assert not os.get_inheritable(listener.fileno())
    assert listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    view.release()


def test_localhost_is_ipv4(listeners: Listeners) -> None:
    """As for the Collector, whose clients are told 127.0.0.1."""
    view = listeners.view("in")
    assert "127.0.0.1" == view.get("tcp", "localhost:0").getsockname()[0]
    view.release()


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="no IPv6 here")
def test_empty_host_takes_both_families(listeners: Listeners) -> None:
    """`:4317` is every address of IPv4 and IPv6."""
    view = listeners.view("in")
    port = view.get("tcp", ":0").getsockname()[1]
    assert _can_connect(("127.0.0.1", port))
    assert _can_connect(("::1", port), socket.AF_INET6)
    view.release()


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")
def test_ipv6_literal(listeners: Listeners) -> None:
    """Brackets are the endpoint's, not the address's, and come back in the text."""
    view = listeners.view("in")
    listener = view.get("tcp", "[::1]:0")
    assert f"[::1]:{listener.getsockname()[1]}" == format_address(listener)
    view.release()


@pytest.mark.parametrize("is_replaced", [False, True])
def test_unix_socket_whose_file_is_gone_is_made_anew(
    listeners: Listeners, tmp_path: Path, is_replaced: bool
) -> None:
    """Clients would not find the old one; the file of another process, which has taken its place, stays."""
    path = tmp_path / "socket"
    old, new = listeners.view("in"), listeners.view("in")
    first = old.get("unix", str(path))
    assert old.are_there()
    path.unlink()
    if is_replaced:
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(str(path))
            assert not old.are_there()
            old.release()
            assert path.exists()
    else:
        assert not old.are_there()
        second = new.get("unix", str(path))
        assert first is not second
        old.release()
        assert new.are_there()
        assert _can_connect(str(path), socket.AF_UNIX)
        new.release()
        assert not path.exists()


def test_unix_socket_is_removed_with_its_last_user(listeners: Listeners, tmp_path: Path) -> None:
    """The path works as long as it is there."""
    path = str(tmp_path / "otlp.sock")
    view = listeners.view("in")
    assert path == format_address(view.get("unix", path))
    assert _can_connect(path, socket.AF_UNIX)
    view.release()
    assert not os.path.exists(path)


def test_stale_unix_socket_is_replaced(listeners: Listeners, tmp_path: Path) -> None:
    """The file that a killed process left behind is no obstacle; the socket of a live one is."""
    path = str(tmp_path / "otlp.sock")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as killed:
        killed.bind(path)
        killed.listen()
        with pytest.raises(StartError, match="address already in use"):
            listeners.view("in").get("unix", path)
    view = listeners.view("in")
    view.get("unix", path)
    assert _can_connect(path, socket.AF_UNIX)
    view.release()


def test_file_in_place_of_a_unix_socket_is_left_alone(listeners: Listeners, tmp_path: Path) -> None:
    """Somebody's file is never deleted for a mistaken endpoint."""
    path = tmp_path / "precious"
    path.write_text("data")
    with pytest.raises(StartError):
        listeners.view("in").get("unix", str(path))
    assert "data" == path.read_text()


@pytest.mark.parametrize(
    ("transport", "endpoint", "message"),
    [
        ("tcp", "localhost", "listen tcp localhost: expected host:port, got 'localhost'"),
        (
            "tcp",
            "localhost:grpc",
            "listen tcp localhost:grpc: expected a port from 0 to 65535 in 'localhost:grpc', got 'grpc'",
        ),
        (
            "tcp",
            "localhost:65536",
            "listen tcp localhost:65536: expected a port from 0 to 65535 in 'localhost:65536', got '65536'",
        ),
        (
            "tcp",
            "no.such.host.invalid:0",
            "listen tcp no.such.host.invalid:0: lookup no.such.host.invalid: no such host",
        ),
        ("udp", "localhost:0", "listen udp localhost:0: unknown network udp"),
        ("tcp", "192.0.2.1:0", "listen tcp 192.0.2.1:0: bind: cannot assign requested address"),
        ("unix", "/nonexistent/s", "listen unix /nonexistent/s: bind: no such file or directory"),
        ("unix", "/" + "a" * 200, f"listen unix /{'a' * 200}: bind: AF_UNIX path too long"),
    ],
)
def test_endpoint_that_cannot_be_bound(
    listeners: Listeners, transport: str, endpoint: str, message: str
) -> None:
    """The message carries the endpoint as written and the system's reason."""
    with pytest.raises(StartError) as caught:
        listeners.view("in").get(transport, endpoint)
    assert message == caught.value.message
