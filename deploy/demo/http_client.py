"""One GET over HTTP."""

from __future__ import annotations

import http.client

_TIMEOUT_S = 10.0


def get(address: str, path: str) -> str:
    """Return the body that address, `host:port`, answers with.

    Raises:
        RuntimeError: the status is not 200.
    """
    connection = http.client.HTTPConnection(address, timeout=_TIMEOUT_S)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read().decode()
    finally:
        connection.close()
    if response.status != 200:
        raise RuntimeError(f"GET {path}: {response.status}")
    return body
