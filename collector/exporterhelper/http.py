"""One POST over HTTP/1.1, and a bounded reading of what comes back: redirects are followed, compressed bodies opened.

Sources: RFC 9110, "Redirection 3xx" and "Content Codings"; Go's net/http, whose client the Collector uses.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from collector.config.headers import split_user
from collector.errors import LimitExceeded, NativeError
from collector.lean import Any, NamedTuple
from collector.native.codec import Codec, Encoding

_BODY_BYTES_MAX = 64 * 1024
_REDIRECTS_MAX = 10
_WITH_THE_BODY = frozenset({307, 308})
_DEFAULT_PORTS = {"http": 80, "https": 443}
_ENCODINGS = {
    "gzip": Encoding.GZIP,
    "x-gzip": Encoding.GZIP,
    "zstd": Encoding.ZSTD,
    "deflate": Encoding.ZLIB,
    "zlib": Encoding.ZLIB,
    "snappy": Encoding.SNAPPY,
    "x-snappy-framed": Encoding.SNAPPY_FRAMED,
    "lz4": Encoding.LZ4,
}


class Answer(NamedTuple):
    """A response.

    Attributes:
        url: who gave it, after redirects; without user and password.
        headers: names in any case.
        media_type: of body, in lower case, without parameters.
        body: at most 64 KiB, after decompression; of more, or of what broke off, the beginning.
        fault: why body is not whole; empty when it is.
        redirect: where a redirect leads that was not followed, and why not; else empty.
    """

    url: str
    status: int
    headers: Mapping[str, str]
    media_type: str
    body: bytes
    fault: str
    redirect: str


class Post(NamedTuple):
    """A request.

    Attributes:
        headers: for whoever gets it, redirects or not.
        own_headers: for the server of url alone: they may hold credentials.
    """

    url: str
    body: bytes
    headers: Mapping[str, str]
    own_headers: Mapping[str, str]


def send(pool_of: Callable[[str], Any], post: Post, limit_s: float | None) -> Answer:
    """Send post, follow redirects that keep method and body, and return the last response.

    Args:
        pool_of: returns the connections to use for a URL.
        limit_s: seconds for all of it; None for no limit.

    Raises:
        urllib3.exceptions.HTTPError: there was none.
    """
    import urllib3

    url = post.url
    end = None if limit_s is None else time.monotonic() + limit_s
    for n_redirects in range(_REDIRECTS_MAX + 1):
        headers = {**post.headers, **post.own_headers} if _may_know(post.url, url) else post.headers
        response = pool_of(url).request(
            "POST",
            url,
            body=post.body,
            headers=headers,
            timeout=urllib3.Timeout(total=None if end is None else max(end - time.monotonic(), 0.001)),
            redirect=False,
            preload_content=False,
            decode_content=False,
        )
        target, problem = _redirect(url, response)
        if not target or problem or n_redirects == _REDIRECTS_MAX:
            break
        _read(response)
        url = target
    if target and not problem:
        problem = f"stopped after {_REDIRECTS_MAX} redirects"
    body, fault = _read(response)
    body, fault = _decoded(body, fault, response.headers.get("content-encoding", ""))
    media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    redirect = f"Location={target}: {problem}" if target else ""
    return Answer(url, response.status, response.headers, media_type, body, fault, redirect)


def _parts(url: str) -> tuple[str, str | None, int | None]:
    import urllib.parse  # needed by urllib3 anyway

    parts = urllib.parse.urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or _DEFAULT_PORTS.get(parts.scheme)


def _may_know(origin: str, url: str) -> bool:
    """Tell whether what is for origin may be sent to url: the same server, or the same host by TLS in its place."""
    scheme, host, port = _parts(origin)
    target_scheme, target_host, target_port = _parts(url)
    is_upgrade = (scheme, target_scheme) == ("http", "https")
    return host == target_host and (is_upgrade or (scheme, port) == (target_scheme, target_port))


def _redirect(url: str, response: Any) -> tuple[str, str]:
    """Return where response leads, without user and password, and why not to go there; two empty texts for nowhere."""
    location = response.headers.get("location")
    if not 300 <= response.status < 400 or not location:
        return "", ""
    import urllib.parse  # needed by urllib3 anyway

    try:
        target = split_user(urllib.parse.urljoin(url, location))[0]
        scheme, host, _ = _parts(target)
    except ValueError:
        return repr(location), "it is no URL"
    if response.status not in _WITH_THE_BODY:
        return (
            target,
            "a redirect of this kind is followed without the data; set the endpoint to where it leads",
        )
    if scheme not in _DEFAULT_PORTS or not host:
        return target, "it is no http:// or https:// URL"
    if scheme == "http" and url.startswith("https://"):
        return target, "it leads from TLS to plain text"
    return target, ""


def _read(response: Any) -> tuple[bytes, str]:
    """Return at most 64 KiB of the body and why it is not whole; give the connection back when it is, else close it."""
    import urllib3

    try:
        body: bytes = response.read(_BODY_BYTES_MAX + 1)
        fault = "it is larger than 64 KiB" if len(body) > _BODY_BYTES_MAX else ""
    except urllib3.exceptions.HTTPError:
        body, fault = b"", "the connection broke within it"
    if fault:
        response.close()
    else:
        response.release_conn()
    return body[:_BODY_BYTES_MAX], fault


def _decoded(body: bytes, fault: str, content_encoding: str) -> tuple[bytes, str]:
    name = content_encoding.strip().lower()
    if fault or not body or name in ("", "identity"):
        return body, fault
    if name not in _ENCODINGS:
        return b"", f"its Content-Encoding {content_encoding!r} is not known here"
    try:
        return Codec().decompress(_ENCODINGS[name], body, _BODY_BYTES_MAX), ""
    except LimitExceeded:
        return b"", "it is larger than 64 KiB after decompression"
    except NativeError:
        return b"", f"it cannot be decompressed as {name}"
