"""The load: shoppers who browse and order, and probes that ask each service whether it is well."""

from __future__ import annotations

import http.client
import random
import threading
from collections.abc import Sequence
from typing import Self

_SHOPPERS = 4
_ORDERS = 0.15
_PAUSE_S = 0.005
_PROBE_PERIOD_S = 0.1
_TIMEOUT_S = 10.0


class Shoppers:
    """Threads that send requests while the context lasts.

    Args:
        front: port of the frontend.
        probed: ports to ask for /healthz.
    """

    def __init__(self, front: int, probed: Sequence[int]) -> None:
        self._done = threading.Event()
        self._threads = [threading.Thread(target=self._shop, args=(front,)) for _ in range(_SHOPPERS)]
        self._threads += [threading.Thread(target=self._probe, args=(port,)) for port in probed]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        for thread in self._threads:
            thread.join()

    def _shop(self, port: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT_S)
        while not self._done.wait(_PAUSE_S):
            if random.random() < _ORDERS:
                _request(connection, "POST", "/orders")
            else:
                _request(connection, "GET", "/products")
        connection.close()

    def _probe(self, port: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT_S)
        while not self._done.wait(_PROBE_PERIOD_S):
            _request(connection, "GET", "/healthz")
        connection.close()


def _request(connection: http.client.HTTPConnection, method: str, path: str) -> None:
    connection.request(method, path)
    connection.getresponse().read()
