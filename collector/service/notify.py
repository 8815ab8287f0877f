"""Tell the manager of services what the collector is about, where there is one that wants to know.

Source: systemd, sd_notify(3): a datagram to the socket that NOTIFY_SOCKET names, as units of `Type=notify` have it.
"""

from __future__ import annotations

import _socket as socket
import os
import time

from collector.telemetry.logs import Log


def notify_ready(log: Log) -> None:
    """Say that requests are taken; again, when a reload is done."""
    _notify("READY=1", log)


def notify_reloading(log: Log) -> None:
    """Say that the configuration is being read again."""
    _notify(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}", log)


def notify_stopping(log: Log) -> None:
    """Say that the collector drains, to end then."""
    _notify("STOPPING=1", log)


def _notify(state: str, log: Log) -> None:
    path = os.environ.get("NOTIFY_SOCKET", "")
    if not path:
        return
    address = f"\0{path[1:]}" if path[0] == "@" else path
    sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        sender.sendto(state.encode(), address)
    except OSError as error:
        log.warning("cannot notify the manager of services", socket=path, error=str(error))
    finally:
        sender.close()
