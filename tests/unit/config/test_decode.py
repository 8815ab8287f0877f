"""From plain values to configuration classes."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.config.decode import decode
from collector.config.expand import UNKNOWN, Expanded
from collector.config.fields import Duration, Reference, Secret, option, section, unserved
from collector.config.values import format_duration
from collector.errors import ConfigError
from collector.lean import fields


class Color(enum.StrEnum):
    """A choice."""

    RED = "red"
    BLUE = "blue"


@section
class Inner:
    """A section."""

    size: int = option(1, doc="Size.", minimum=1, maximum=10, unit="MiB")
    inner_only: bool = option(False, doc="Only here.")


@section
class Config:
    """One field of each type."""

    flag: bool = option(False, doc="Flag.")
    count: int = option(5, doc="Count.", minimum=0)
    share: float = option(0.5, doc="Share.", unit="%", minimum=0, maximum=100)
    text: str = option("text", doc="Text.")
    mode: str = option("a", doc="Mode.", choices=("a", "b"))
    color: Color = option(Color.RED, doc="Color.")
    timeout: Duration = option(Duration(1.0), doc="Timeout.", minimum=0.1)
    token: Secret = option(Secret(""), doc="Token.")
    inner: Inner = option(factory=Inner, doc="Section.")
    maybe: Inner | None = option(None, doc="Section that null leaves off.")
    enabled: Inner | None = option(None, doc="Section that null switches on.", null_enables=True)
    wait: Duration | None = option(None, doc="Optional duration.")
    words: tuple[str, ...] = option((), doc="Words.")
    numbers: tuple[int, ...] = option((), doc="Numbers.", minimum=1)
    headers: dict[str, Secret] = option(factory=dict, doc="Headers.")
    sections: tuple[Inner, ...] = option((), doc="Sections.")
    named: dict[str, Inner] = option(factory=dict, doc="Named sections.")
    from_: str = option("", doc="A key that is a word of Python.")
    anything: Any = option(None, doc="Unchecked.")
    level: str = option("info", doc="Level.", choices=("info", "warn"), synonyms={"warning": "warn"})
    ids: tuple[Reference, ...] = option((), doc="Ids.")
    proxy: Any = unserved("go without")

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield a rule across fields."""
        if self.count > 100 and not self.flag:
            yield "count", "more than 100 needs flag"
        if self.count == 99:
            yield "", "99 is a bad number"


@section
class Required:
    """A key without a default."""

    endpoint: str = option(doc="Where.")


def problems_of(value: Any, config_class: type[Any] = Config) -> list[str]:
    """Return all problems that decoding finds, as they are shown."""
    with pytest.raises(ConfigError) as caught:
        decode(config_class, value, "p")
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("values", "field", "expected"),
    [
        ({"flag": True}, "flag", True),
        ({"flag": Expanded(True, "true")}, "flag", True),
        ({"count": 7}, "count", 7),
        ({"count": 1e2}, "count", 100),
        ({"count": Expanded(7, "7")}, "count", 7),
        ({"share": 7}, "share", 7.0),
        ({"text": ""}, "text", ""),
        ({"text": Expanded(83, "0123")}, "text", "0123"),
        ({"text": Expanded(None, "null")}, "text", "null"),
        ({"mode": "B"}, "mode", "b"),
        ({"color": "blue"}, "color", Color.BLUE),
        ({"color": "Blue"}, "color", Color.BLUE),
        ({"timeout": "1m0.5s"}, "timeout", Duration(60.5)),
        ({"wait": 0}, "wait", Duration(0.0)),
        ({"token": Expanded(1000.0, "1e3")}, "token", Secret("1e3")),
        ({"headers": {"x-id": Expanded(True, "true")}}, "headers", {"x-id": "true"}),
        ({"inner": {"size": 3}}, "inner", Inner(size=3)),
        ({"inner": Expanded({"size": Expanded(3, "3")}, "")}, "inner", Inner(size=3)),
        ({"enabled": None}, "enabled", Inner()),
        ({"enabled": Expanded(None, "")}, "enabled", Inner()),
        ({"maybe": None}, "maybe", None),
        ({"maybe": {}}, "maybe", Inner()),
        ({"words": ["a", "b"]}, "words", ("a", "b")),
        ({"words": "a,b"}, "words", ("a", "b")),
        ({"words": Expanded(["a", Expanded(1, "01")], "")}, "words", ("a", "01")),
        ({"sections": [{"size": 2}, None]}, "sections", (Inner(size=2), Inner())),
        ({"named": {"x": None}}, "named", {"x": Inner()}),
        (
            {"headers": [{"name": "a", "value": Expanded(1, "01")}, {"name": "b"}]},
            "headers",
            {"a": "01", "b": ""},
        ),
        ({"level": "WARNING"}, "level", "warn"),
        ({"ids": ["a"]}, "ids", (Reference("a"),)),
        ({"proxy": ""}, "proxy", None),
        ({"from": "here"}, "from_", "here"),
        ({"anything": {"a": Expanded(1, "1")}}, "anything", {"a": 1}),
    ],
)
def test_value_becomes_what_the_field_says(values: dict[str, Any], field: str, expected: object) -> None:
    """Each type takes what stands for it, and text fields take the text of a reference."""
    value = getattr(decode(Config, values, "p"), field)
    assert (value, type(value)) == (expected, type(expected))


@pytest.mark.parametrize(
    "value",
    [
        None,
        {},
        Expanded(None, ""),
        {field.name.rstrip("_"): None for field in fields(Config) if field.name != "enabled"},
    ],
)
def test_null_means_the_defaults(value: Any) -> None:
    """A null section, or a null key, is as if it were not there."""
    assert decode(Config, value, "p") == Config()


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"flag": "yes"}, "p::flag: expected true or false, got 'yes'"),
        ({"flag": 1}, "p::flag: expected true or false, got 1"),
        ({"count": "5"}, "p::count: expected a whole number, got '5'; remove the quotes"),
        ({"flag": "true"}, "p::flag: expected true or false, got 'true'; remove the quotes"),
        ({"share": "1.5"}, "p::share: expected a number, got '1.5'; remove the quotes"),
        ({"count": True}, "p::count: expected a whole number, got true"),
        ({"count": 1.5}, "p::count: expected a whole number, got 1.5"),
        ({"count": math.inf}, "p::count: expected a whole number, got inf"),
        ({"count": "abc"}, "p::count: expected a whole number, got 'abc'"),
        ({"count": -1}, "p::count: expected at least 0, got -1"),
        ({"share": 100.5}, "p::share: expected at most 100 %, got 100.5"),
        ({"share": math.nan}, "p::share: expected a number, got nan"),
        ({"text": 5}, "p::text: expected text, got 5; put it in quotes"),
        ({"text": True}, "p::text: expected text, got true; put it in quotes"),
        ({"text": ["a"]}, "p::text: expected text, got a list"),
        ({"mode": "c"}, "p::mode: expected one of 'a', 'b', got 'c'"),
        ({"color": "green"}, "p::color: expected one of 'red', 'blue', got 'green'"),
        ({"color": 5}, "p::color: expected one of 'red', 'blue', got 5"),
        ({"timeout": "fast"}, "p::timeout: expected a duration such as '200ms', got 'fast'"),
        (
            {"timeout": "5"},
            "p::timeout: expected a duration such as '200ms', got '5': missing unit in duration \"5\"",
        ),
        (
            {"timeout": 5},
            "p::timeout: expected a duration such as '200ms', got 5: missing unit in duration \"5\"",
        ),
        (
            {"timeout": "5d"},
            "p::timeout: expected a duration such as '200ms', got '5d': unknown unit \"d\" in duration \"5d\"",
        ),
        ({"timeout": "50ms"}, "p::timeout: expected at least 100ms, got 50ms"),
        ({"timeout": {}}, "p::timeout: expected a duration such as '200ms', got a map"),
        ({"inner": "x"}, "p::inner: expected a map, got 'x'"),
        ({"inner": {"size": 11}}, "p::inner::size: expected at most 10 MiB, got 11"),
        ({"proxy": "x"}, "p::proxy: not supported yet; go without"),
        ({"ids": "a,b"}, "p::ids: expected a list, got 'a,b'"),
        ({"headers": [{"name": "a"}, {"name": "a"}]}, "p::headers::1: duplicate name 'a'"),
        ({"headers": [{"name": 5}]}, "p::headers::0::name: expected text, got 5; put it in quotes"),
        ({"count": 2**63}, f"p::count: expected at most {2**63 - 1}, got {2**63}"),
        ({"words": {"a": 1}}, "p::words: expected a list, got a map"),
        ({"words": ["a", None]}, "p::words::1: expected text, got null"),
        ({"numbers": "1,2"}, "p::numbers: expected a list, got '1,2'"),
        ({"numbers": [1, 0]}, "p::numbers::1: expected at least 1, got 0"),
        ({"headers": ["a"]}, "p::headers::0: expected a map with the keys 'name' and 'value'"),
        ({"sections": [{"size": "x"}]}, "p::sections::0::size: expected a whole number of MiB, got 'x'"),
        ({"named": {"x": {"size": 0}}}, "p::named::x::size: expected at least 1 MiB, got 0"),
        ({"text": ["x" * 100]}, "p::text: expected text, got a list"),
        ({"count": "x" * 100}, f"p::count: expected a whole number, got '{'x' * 60}...'"),
        ({"timout": "1s"}, "p: has invalid keys: timout; did you mean 'timeout'?"),
        ({"\xa0count": 1}, r"p: has invalid keys: '\xa0count'; did you mean 'count'?"),
        ({"inner_only": True}, "p: has invalid keys: inner_only; it is valid under inner, maybe, enabled"),
        ({"inner": {"timeout": "1s"}}, "p::inner: has invalid keys: timeout; it is valid under p"),
        ({"inner": {"qqqq": 1}}, "p::inner: has invalid keys: qqqq; valid keys: size, inner_only"),
        ({"count": 101}, "p::count: more than 100 needs flag"),
        ({"count": 99}, "p: 99 is a bad number"),
        ("x", "p: expected a map, got 'x'"),
        ([], "p: expected a map, got a list"),
    ],
)
def test_faulty_value_is_told(values: Any, problem: str) -> None:
    """Where, what was expected, what stands there, what to do."""
    assert problems_of(values) == [problem]


def test_all_problems_are_told_at_once() -> None:
    """One run shows every fault, sorted by path."""
    assert problems_of({"count": "x", "inner": {"size": 0, "bad": 1}, "words": [1, 2]}) == [
        "p::count: expected a whole number, got 'x'",
        "p::inner: has invalid keys: bad; valid keys: size, inner_only",
        "p::inner::size: expected at least 1 MiB, got 0",
        "p::words::0: expected text, got 1; put it in quotes",
        "p::words::1: expected text, got 2; put it in quotes",
    ]


def test_rules_between_fields_are_told_beside_faulty_values() -> None:
    """A rule is tried with what is right; what it says of a faulty or misspelt field, or of all, waits."""
    assert problems_of({"count": 101, "share": "x"}) == [
        "p::count: more than 100 needs flag",
        "p::share: expected a number, got 'x'",
    ]
    assert problems_of({"count": 99, "share": "x"}) == ["p::share: expected a number, got 'x'"]
    assert problems_of({"count": "x"}) == ["p::count: expected a whole number, got 'x'"]
    assert problems_of({"count": 101, "coun": 1}) == ["p: has invalid keys: coun; did you mean 'count'?"]


def test_required_key_is_asked_for() -> None:
    """A key without a default must be given; empty text from a reference is given."""
    assert problems_of({}, Required) == ["p::endpoint: is required"]
    assert problems_of(None, Required) == ["p::endpoint: is required"]
    assert decode(Required, {"endpoint": Expanded(None, "")}, "p") == Required(endpoint="")


def test_secret_never_shows() -> None:
    """No message holds what stands in a secret field."""
    (problem,) = problems_of({"token": 123456})
    assert problem == "p::token: expected text, got a number; put it in quotes"
    assert "s3cret" not in repr(decode(Config, {"token": "s3cret"}, "p"))


def test_unknown_value_is_no_second_problem() -> None:
    """What a faulty reference left behind fails without a word."""
    with pytest.raises(ConfigError) as caught:
        decode(Config, {"count": UNKNOWN, "text": UNKNOWN, "flag": "x"}, "p")
    assert [problem.path for problem in caught.value.problems] == ["p::flag"]


def test_place_is_asked_for_with_the_path_of_the_key() -> None:
    """Unknown keys are placed where they stand, not where their section begins."""
    with pytest.raises(ConfigError) as caught:
        decode(Config, {"nope": 1, "count": "x"}, "p", lambda path: f" @{path}")
    assert sorted(problem.message.rpartition("@")[2] for problem in caught.value.problems) == [
        "p::count",
        "p::nope",
    ]


@given(st.integers(10**8, 10**15))
def test_duration_that_is_written_is_read(ns: int) -> None:
    """What a message shows can be pasted into the file."""
    text = format_duration(ns / 1e9)
    assert round(decode(Config, {"timeout": text}, "p").timeout * 1e9) == ns


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
_NAMES = [field.name.rstrip("_") for field in fields(Config)]


@given(st.dictionaries(st.sampled_from([*_NAMES, "other"]), _VALUES, max_size=5))
def test_any_map_is_decoded_or_told(values: dict[str, Any]) -> None:
    """No value breaks the decoder, and no problem comes without a path."""
    try:
        assert isinstance(decode(Config, values, "p"), Config)
    except ConfigError as error:
        assert all(problem.path.startswith("p") for problem in error.problems)
