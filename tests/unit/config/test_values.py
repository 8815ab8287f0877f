"""Durations as Go writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.config.values import (
    format_duration,
    hide_credentials,
    nearest,
    parse_duration,
    split_address,
)

_MAX_EXACT_NS = 2**50


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("0s", 0.0),
        ("-0s", 0.0),
        ("200ms", 0.2),
        ("1h2m3.5s", 3723.5),
        ("1.5h", 5400.0),
        (".5s", 0.5),
        ("1.s", 1.0),
        ("1m0.001s", 60.001),
        ("-1.5s", -1.5),
        ("+5s", 5.0),
        ("10us", 0.00001),
        ("10\N{MICRO SIGN}s", 0.00001),
        ("10\N{GREEK SMALL LETTER MU}s", 0.00001),
        ("3ns", 3e-9),
        ("1s1s", 2.0),
    ],
)
def test_duration_text_gives_seconds(text: str, seconds: float) -> None:
    """Every form that Go reads gives the same time."""
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'invalid duration ""'),
        ("-", 'invalid duration "-"'),
        ("fast", 'invalid duration "fast"'),
        (".s", 'invalid duration ".s"'),
        ("5", 'missing unit in duration "5"'),
        ("1h5", 'missing unit in duration "1h5"'),
        ("1d", 'unknown unit "d" in duration "1d"'),
        ("1 s", 'unknown unit " s" in duration "1 s"'),
        ("1S", 'unknown unit "S" in duration "1S"'),
        ("1s-", 'unknown unit "s-" in duration "1s-"'),
        ("9223372036855s", 'invalid duration "9223372036855s"'),
        ("\N{ARABIC-INDIC DIGIT ONE}s", 'invalid duration "\N{ARABIC-INDIC DIGIT ONE}s"'),
        ("1" * 65 + "s", 'invalid duration "' + "1" * 64 + '"'),
    ],
)
def test_faulty_duration_is_refused_in_words_of_go(text: str, message: str) -> None:
    """What Go refuses is refused, with words that can be searched for."""
    with pytest.raises(ValueError) as caught:
        parse_duration(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.2, "200ms"),
        (1.5, "1.5s"),
        (60, "1m0s"),
        (3723.5, "1h2m3.5s"),
        (1e-9, "1ns"),
        (-0.5, "-500ms"),
    ],
)
def test_duration_is_written_as_go_does(seconds: float, text: str) -> None:
    """Messages show durations in the form in which they are configured."""
    assert format_duration(seconds) == text


@given(st.integers(-_MAX_EXACT_NS, _MAX_EXACT_NS))
def test_written_duration_reads_back_to_the_nanosecond(ns: int) -> None:
    """Writing and reading loses no nanosecond."""
    assert round(parse_duration(format_duration(ns / 1e9)) * 1e9) == ns


@given(st.text(alphabet="0123456789.hmsnu-+ ", max_size=70))
def test_any_text_is_a_duration_or_a_value_error(text: str) -> None:
    """No text breaks the parser."""
    try:
        assert abs(parse_duration(text)) < 2**63 / 1e9 + 1
    except ValueError as error:
        assert "duration" in str(error)


def test_nearest_word_is_found_or_none() -> None:
    """Only what is like a known word is taken for it."""
    assert nearest("timout", ["timeout", "endpoint"]) == "timeout"
    assert nearest("xyz", ["timeout", "endpoint"]) is None


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:4317", ("localhost", 4317)),
        (":0", ("", 0)),
        ("[::1]:65535", ("::1", 65535)),
    ],
)
def test_address_is_host_and_port(text: str, address: tuple[str, int]) -> None:
    """An empty host and port 0 mean any; an IPv6 address stands in brackets."""
    assert address == split_address(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected host:port, got ''"),
        ("localhost", "expected host:port, got 'localhost'"),
        ("http://localhost:4317", "expected host:port, got 'http://localhost:4317'"),
        ("::1:4317", "expected host:port, got '::1:4317'; write an IPv6 address in brackets"),
        ("[::1]", "expected host:port, got '[::1]'"),
        ("localhost:grpc", "expected a port from 0 to 65535 in 'localhost:grpc', got 'grpc'"),
        ("localhost:65536", "expected a port from 0 to 65535 in 'localhost:65536', got '65536'"),
        ("localhost:", "expected a port from 0 to 65535 in 'localhost:', got ''"),
    ],
)
def test_what_is_no_address_is_told(text: str, message: str) -> None:
    """The message shows what was written."""
    with pytest.raises(ValueError) as caught:
        split_address(text)
    assert message == str(caught.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://user:s3cret@host:1/a?b=c@d", "http://***@host:1/a?b=c@d"),
        ("https://token@[::1]:1", "https://***@[::1]:1"),
        ("http://user:s3@cret@host", "http://***@host"),
        ("http://user:s3/cr#e?t@host/a", "http://***@host/a"),
        ("http://host/a@b", "http://host/a@b"),
        ("http://host:1/a@b", "http://host:1/a@b"),
        ("http://[::1]/a@b", "http://[::1]/a@b"),
        ("mail@host", "mail@host"),
        ("", ""),
    ],
)
def test_credentials_of_a_url_are_hidden(url: str, shown: str) -> None:
    """User and password, also those that should have been escaped; nothing else is changed."""
    assert shown == hide_credentials(url)


def test_credentials_in_an_address_are_hidden() -> None:
    """They have no place there, and are not shown."""
    with pytest.raises(ValueError, match=r"without user and password, got '\*\*\*@host:1'"):
        split_address("user:s3cret@host:1")
