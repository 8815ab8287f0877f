"""Where configuration comes from, and how several sources become one map."""

from __future__ import annotations

import http.server
import io
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.config import sources
from collector.config.expand import plain
from collector.config.resolve import resolve
from collector.config.sources import SourceError, read, read_layer, read_set
from collector.errors import ConfigError


def problem_of(call: object, *arguments: object) -> str:
    """Return the only problem that a call finds."""
    with pytest.raises(ConfigError) as caught:
        call(*arguments)  # type: ignore[operator]
    (problem,) = caught.value.problems
    return str(problem)


class TestRead:
    """One location."""

    def test_schemes_give_text(self, tmp_path: Path) -> None:
        """A path, file:, env: and yaml: are read."""
        path = tmp_path / "a.yaml"
        path.write_bytes(b"\xef\xbb\xbfa: 1\n")
        environ = {"TEXT": "b: 2"}
        texts = [
            read(uri, "file", environ).text for uri in (str(path), f"file:{path}", "env:TEXT", "yaml:c: 3")
        ]
        assert texts == ["a: 1\n", "a: 1\n", "b: 2", "c: 3"]

    def test_default_serves_only_where_nothing_is_set(self) -> None:
        """A variable that is set but empty is not given the default."""
        environ = {"EMPTY": ""}
        assert read("env:EMPTY:-d", "file", environ).text == ""
        assert read("env:UNSET:-d", "file", environ).text == "d"
        assert read("env:UNSET:-", "file", environ) == ("", "env:UNSET", "", True)
        assert (
            read("env:UNSET", "file", environ).warning
            == 'configuration references unset environment variable "UNSET"'
        )

    @pytest.mark.parametrize(
        ("uri", "message"),
        [
            (
                "env:1x",
                'environment variable "1x" has invalid name: must match regex ^[a-zA-Z_][a-zA-Z0-9_]*$',
            ),
            (
                "s3:bucket",
                'scheme "s3" is not supported for uri "s3:bucket"; known: env, file, http, https, yaml',
            ),
            (
                "http://127.0.0.1:1/x",
                "unable to download the file via HTTP GET for uri 'http://127.0.0.1:1/x': Connection refused",
            ),
            (
                "http:",
                "unable to download the file via HTTP GET for uri 'http:': No host specified.",
            ),
            ("/nowhere/at/all.yaml", "cannot read '/nowhere/at/all.yaml': no such file or directory"),
            ("/", "cannot read '/': is a directory"),
            ("a\0b", "cannot read 'a\\x00b': not a path"),
            ("env:BYTES", "cannot read 'env:BYTES': not UTF-8 text"),
        ],
    )
    def test_unreadable_location_says_why(self, uri: str, message: str) -> None:
        """Each failure names the location and the reason."""
        with pytest.raises(SourceError) as caught:
            read(uri, "file", {"BYTES": os.fsdecode(b"\xff")})
        assert str(caught.value) == message

    def test_file_that_is_not_text_is_refused(self, tmp_path: Path) -> None:
        """Bytes that are no UTF-8 are an error with the name of the file."""
        path = tmp_path / "a.yaml"
        path.write_bytes(b"a: \xff")
        with pytest.raises(SourceError, match="not UTF-8 text"):
            read(str(path), "file", {})

    def test_forgotten_scheme_is_pointed_out(self) -> None:
        """`${NAME:-default}` is refused as by the Collector, and the right form is shown."""
        with pytest.raises(SourceError) as caught:
            read("NAME:-default", "env", {})
        assert str(caught.value) == (
            'scheme "NAME" is not supported for uri "NAME:-default"; a default is written "env:NAME:-default"'
        )


class _Pages(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        credentials = (self.headers["authorization"] or "").encode()
        status, body = {
            "/credentials": (200, b"a: " + credentials),
            "/config.yaml": (200, b"a: 1"),
            "/moved": (302, b""),
            "/binary": (200, b"a: \xff"),
        }.get(self.path, (404, b"a: 2"))
        self.send_response(status)
        self.send_header("Location", "/config.yaml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


@pytest.fixture
def pages() -> Iterator[str]:
    """Serve a few pages; return the URL they are at."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Pages) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


class TestFetch:
    """URLs."""

    def test_a_page_is_a_source(self, pages: str) -> None:
        """With or without a redirect, named by its URL."""
        url = f"{pages}/config.yaml"
        assert read_layer(url, {}) == ({"a": 1}, {"": f"{url}:1", "a": f"{url}:1"}, url, "")
        assert read_layer(f"{pages}/moved", {}).values == {"a": 1}

    def test_credentials_are_sent_and_not_shown(self, pages: str) -> None:
        """Neither in places nor in errors."""
        url = pages.replace("http://", "http://user:s3cret@")
        shown = pages.replace("http://", "http://***@")
        layer = read_layer(f"{url}/credentials", {})
        assert ({"a": "Basic dXNlcjpzM2NyZXQ="}, f"{shown}/credentials:1") == (
            layer.values,
            layer.lines["a"],
        )
        assert f"fail to download the file from uri '{shown}/none': HTTP status 404" == problem_of(
            read_layer, f"{url}/none", {}
        )
        for uri in ("http://user:s3cret@127.0.0.1:1", "s3://user:s3cret@bucket"):
            assert "s3cret" not in problem_of(read_layer, uri, {})

    def test_what_is_no_page_is_told(self, pages: str) -> None:
        """Another status, and what is no text."""
        assert problem_of(read_layer, f"{pages}/none", {}) == (
            f"fail to download the file from uri '{pages}/none': HTTP status 404"
        )
        assert "/binary': not UTF-8 text: byte 0x" in problem_of(read_layer, f"{pages}/binary", {})


class TestLayers:
    """One `--config` or `--set`."""

    def test_standard_input_is_read_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A reload finds the text again."""
        monkeypatch.setattr(sources, "_stdin", [])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a: 1")))
        assert ({"a": 1}, {"": "stdin:1", "a": "stdin:1"}, "stdin") == read_layer("-", {})[:3]
        assert {"a": 1} == read_layer("-", {}).values

    def test_standard_input_may_be_no_text(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """It is told as of a file."""
        monkeypatch.setattr(sources, "_stdin", [])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a: \xff")))
        assert problem_of(read_layer, "-", {}) == (
            "cannot read 'standard input': not UTF-8 text: byte 0xff on line 1"
        )

    def test_double_colons_nest(self) -> None:
        """`yaml:a::b: c` sets one key deep in the map."""
        assert read_layer("yaml:a::b: c\na::d: [1]", {}).values == {"a": {"b": "c", "d": [1]}}

    def test_set_splits_at_dots_and_types_the_value(self) -> None:
        """`--set` values are YAML; everything behind the first `=` is the value."""
        assert read_set("a.b/c.d=10").values == {"a": {"b/c": {"d": 10}}}
        assert read_set("a=b=c").values == {"a": "b=c"}
        assert read_set("a.b=[x, 1]").values == {"a": {"b": ["x", 1]}}
        assert read_set("a=").values == {"a": None}

    def test_set_is_a_line_of_yaml(self) -> None:
        """So double colons nest too, and spaces around do not count."""
        assert read_set(" a::b.c = [1] ").values == {"a": {"b": {"c": [1]}}}

    def test_double_colons_nest_at_every_depth(self) -> None:
        """In maps, but not in lists."""
        assert read_layer("yaml:a: {b::c: 1, b: {d: 2}, e: [{f::g: 3}]}", {}).values == {
            "a": {"b": {"c": 1, "d": 2}, "e": [{"f::g": 3}]}
        }

    def test_byte_order_mark_says_the_encoding(self, tmp_path: Path) -> None:
        """UTF-16 is read as such."""
        path = tmp_path / "a.yaml"
        path.write_bytes("a: \u00e9".encode("utf-16"))
        assert read_layer(str(path), {}).values == {"a": "\u00e9"}

    def test_faulty_set_is_refused(self) -> None:
        """A missing equal sign and broken YAML are told."""
        assert problem_of(read_set, "a.b") == "--set: missing equal sign: expected key=value, got 'a.b'"
        assert problem_of(read_set, "a=[").startswith("--set a:")

    def test_source_that_is_no_map_is_refused(self) -> None:
        """A list at the top is no configuration."""
        problem = problem_of(read_layer, "yaml:[1]", {})
        assert problem == "yaml:1: expected a map of sections such as 'receivers', got a list"

    def test_file_that_is_no_text_is_refused_with_its_line(self, tmp_path: Path) -> None:
        """Of text in another encoding, the first byte that is not UTF-8 is shown."""
        path = tmp_path / "latin1.yaml"
        path.write_bytes("a: 1\nb: größe\n".encode("latin1"))
        assert problem_of(read_layer, str(path), {}) == (
            f"cannot read {str(path)!r}: not UTF-8 text: byte 0xf6 on line 2"
        )

    def test_file_without_end_is_refused(self) -> None:
        """What is no configuration does not fill the memory."""
        assert (
            problem_of(read_layer, "/dev/zero", {}) == "cannot read '/dev/zero': larger than 16777216 bytes"
        )

    def test_unset_variable_is_no_configuration(self) -> None:
        """`--config env:NAME` without that variable fails instead of running with nothing."""
        assert "unset environment variable" in problem_of(read_layer, "env:NAME", {})


class TestResolve:
    """All sources together."""

    def test_later_sources_win_and_sets_come_last(self, tmp_path: Path) -> None:
        """Order decides, and each path knows where it was written last."""
        first, second = tmp_path / "1.yaml", tmp_path / "2.yaml"
        first.write_text("a:\n  b: 1\n  c: 2\nd: [1, 2]\n")
        second.write_text("a:\n\n  c: 3\nd: [4]\n")
        resolved = resolve([str(first), str(second)], ["a.e=5"], {})
        assert plain(resolved.values) == {"a": {"b": 1, "c": 3, "e": 5}, "d": [4]}
        assert resolved.places.locate("a::b") == f" ({first}:2)"
        assert resolved.places.locate("a::c") == f" ({second}:3)"
        assert resolved.places.locate("a::e") == " (--set a.e)"
        assert resolved.places.locate("a::c::unknown::below") == f" ({second}:3)"
        assert resolved.places.locate("x") == ""

    def test_place_names_the_variable(self) -> None:
        """An error about a value from outside says which reference gave it, without a default that may be secret."""
        resolved = resolve(["yaml:a: ${env:N:-s3cret}"], [], {})
        assert resolved.places.locate("a::b") == " (yaml:1, ${env:N})"

    def test_faults_of_all_sources_are_told(self) -> None:
        """One broken source does not hide another."""
        with pytest.raises(ConfigError) as caught:
            resolve(["yaml:[", "s3:x", "yaml:a: 1"], ["a"], {})
        assert len(caught.value.problems) == 3

    def test_no_source_is_an_error(self) -> None:
        """Without --config there is nothing to run."""
        assert problem_of(resolve, [], []) == "at least one config flag must be provided: --config FILE"
