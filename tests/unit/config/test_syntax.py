"""YAML as the Collector's parser types it, within bounds."""

from __future__ import annotations

import contextlib
import math

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from collector.config.syntax import parse, resolve
from collector.errors import InvalidYAML
from collector.native.yaml import Fault, read_events


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("~", None),
        ("NULL", None),
        ("true", True),
        ("False", False),
        ("yes", "yes"),
        ("no", "no"),
        ("on", "on"),
        ("y", "y"),
        ("2024-01-01", "2024-01-01"),
        ("12:30:45", "12:30:45"),
        ("10", 10),
        ("-10", -10),
        ("+7", 7),
        ("1_000", 1000),
        ("017", 15),
        ("0o17", 15),
        ("0123", 83),
        ("089", 89.0),
        ("0x1F", 31),
        ("0b101", 5),
        ("0", 0),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("1.", 1.0),
        (".inf", math.inf),
        ("-.Inf", -math.inf),
        ("1e999", "1e999"),
        ("18446744073709551615", 2**64 - 1),
        ("18446744073709551616", 2.0**64),
        ("9" * 5000, "9" * 5000),
        ("1.2.3", "1.2.3"),
        ("-", "-"),
        (".", "."),
        ("_1", "_1"),
        ("0x", "0x"),
        ("tRUE", "tRUE"),
    ],
)
def test_plain_scalar_has_the_type_that_go_gives_it(text: str, value: object) -> None:
    """Unquoted text is typed as go-yaml v3 types it for a field of any type."""
    result = resolve(text)
    assert (result, type(result)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'10'", "10"),
        ('"true"', "true"),
        ("!!str 10", "10"),
        ("!!int '10'", 10),
        ("!!float 3", 3.0),
        ("|\n  10\n", "10\n"),
        ("[1, a, 'b']", [1, "a", "b"]),
        ("{1: a, true: b}", {"1": "a", "true": "b"}),
        ("a: &x {b: 1, c: 2}\nd: {<<: *x, b: 3}", {"a": {"b": 1, "c": 2}, "d": {"b": 3, "c": 2}}),
        (
            "a: &x {b: 1}\nc: &y {b: 2, e: 5}\nd: {<<: [*x, *y]}",
            {"a": {"b": 1}, "c": {"b": 2, "e": 5}, "d": {"b": 1, "e": 5}},
        ),
        ("'<<': 1", {"<<": 1}),
        ("# nothing", None),
        ("---\n", None),
    ],
)
def test_document_gives_plain_values(text: str, value: object) -> None:
    """Quotes, tags, anchors and merge keys mean what they mean in YAML."""
    assert parse(text).value == value


def test_every_path_has_its_line() -> None:
    """Errors can say on which line a key or an item stands."""
    lines = parse("a:\n  b: 1\n  c:\n    - x\n    - y\n").lines
    assert {path: lines[path] for path in ("a", "a::b", "a::c", "a::c::1")} == {
        "a": 1,
        "a::b": 2,
        "a::c": 3,
        "a::c::1": 5,
    }


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", 3, 'key "a" is already defined at line 1'),
        ("a: *x", 1, 'unknown anchor "x" referenced'),
        ("a: &x [*x]", 1, "anchor 'x' value contains itself"),
        ("? [a]\n: 1", 1, "a key must be text"),
        ("a: 1\n---\nb: 2\n", 2, "expected one document, found another"),
        ("a: {<<: 1}", 1, "map merge requires map or sequence of maps as the value"),
        ("a: !!int x", 1, "cannot read 'x' as !!int"),
        ("a: !custom x", 1, "cannot read 'x' as !custom"),
        ("a: \ud800", 1, "the text is not valid Unicode"),
        ("\n[" * 102 + "]" * 102, 103, "nested deeper than 100 levels"),
    ],
)
def test_faulty_text_is_refused_with_its_line(text: str, line: int, message: str) -> None:
    """Each fault names its line and what is wrong."""
    with pytest.raises(InvalidYAML) as caught:
        parse(text)
    assert (caught.value.line, caught.value.message) == (line, message)


_TOKEN = "found character that cannot start any token"
_VALUES_RULE = "mapping values are not allowed in this context"
_TAB = "there is a tab: indent with spaces"


@pytest.mark.parametrize(
    ("text", "line", "problem", "advice"),
    [
        ("a:\n\tb: 1", 2, _TOKEN, _TAB),
        ("a:\n  b: 1\n\tc: 2", 3, "found a tab character that violates indentation", _TAB),
        ("a: |\n\tb", 2, "found a tab character where an indentation space is expected", _TAB),
        ("a: @b", 1, _TOKEN, "a text that begins with '@' needs quotes"),
        ("a: %b", 1, _TOKEN, "a text that begins with '%' needs quotes"),
        ("a: }", 1, "did not find expected node content", "a text that begins with '}' needs quotes"),
        ("a: b: c", 1, _VALUES_RULE, "a text with ': ' in it needs quotes"),
        ("a:\n  b\n    c: d", 3, _VALUES_RULE, "the line above lacks its ': ', or this one is too deep"),
        ("a:b\nc: d", 2, _VALUES_RULE, "the line above lacks its ': ', or this one is too deep"),
        ("a: 1\nb\n", 3, "could not find expected ':'", "a key needs ': ' behind it"),
        (
            "a: [1\n",
            2,
            "did not find expected ',' or ']'",
            "the '[' of line 1 is not closed, or a comma is missing",
        ),
        (
            "a: {b\n",
            2,
            "did not find expected ',' or '}'",
            "the '{' of line 1 is not closed, or a comma is missing",
        ),
        ("a: {\n", 2, "did not find expected node content", "the text ends here: a '{' or '[' is not closed"),
        ("a:\nb: 'c\nd: 1\n", 4, "found unexpected end of stream", "the quote of line 2 is not closed"),
        (
            "a:\n  - b\n - c\n",
            3,
            "did not find expected key",
            "the map of line 1 goes on at another depth, or something follows a quoted text",
        ),
        (
            "a:\n  - b\n  c: 1\n",
            3,
            "did not find expected '-' indicator",
            "the list of line 2 goes on at another depth, or without '-'",
        ),
        (
            "a: - b",
            1,
            "block sequence entries are not allowed in this context",
            "a list begins on the line below its key",
        ),
        ("  a: 1\nb: 2", 2, "did not find expected <document start>", "it is less deep than what is above"),
        (
            "a: *",
            1,
            "did not find expected alphabetic or numeric character",
            "'*' and '&' begin references: put the text in quotes",
        ),
        (
            'a: "\\d"',
            1,
            "found unknown escape character",
            "put the text in single quotes, in which a backslash is one",
        ),
        (
            "%YAML 2.0\n---\na: 1",
            1,
            "found incompatible YAML document",
            "remove the line that begins with '%YAML'",
        ),
        ("a: !e!x y", 1, "found undefined tag handle", "a text that begins with '!' needs quotes"),
    ],
)
def test_mistake_is_told_with_its_rule(text: str, line: int, problem: str, advice: str) -> None:
    """The parser's words, which people search for, and behind them what to do."""
    with pytest.raises(InvalidYAML) as caught:
        parse(text)
    assert (line, f"{problem}; {advice}") == (caught.value.line, caught.value.message)


@pytest.mark.parametrize(
    ("text", "line", "character"),
    [
        ("a: \x01", 1, "U+0001"),
        ("é: 1\nü: \x7f", 2, "U+007F"),
        ("a\0:\0", 1, "U+0000; is the text in UTF-8?"),
    ],
)
def test_control_character_is_refused(text: str, line: int, character: str) -> None:
    """Characters that YAML does not allow are an error that shows which and where."""
    with pytest.raises(InvalidYAML) as caught:
        parse(text)
    assert line == caught.value.line
    assert caught.value.message.endswith(f" characters are not allowed: {character}")


def test_merged_keys_have_the_line_of_their_merge() -> None:
    """A fault in what an anchor brought along is told where it was brought; the map keeps its own line."""
    lines = parse("a: &x {b: 1}\nc:\n  - d: 1\n    <<: *x\n").lines
    assert (3, 4) == (lines["c::0"], lines["c::0::b"])


def test_anchors_that_multiply_are_refused() -> None:
    """A short text cannot stand for a billion values."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    with pytest.raises(InvalidYAML, match="more than 100000 values"):
        parse("\n".join(lines))


def test_anchors_that_nest_are_refused() -> None:
    """Depth is counted through anchors, so that nothing behind can run out of stack."""
    lines = ["a0: &a0 [x]"] + [f"a{n}: &a{n} [[[[[*a{n - 1}]]]]]" for n in range(1, 40)]
    with pytest.raises(InvalidYAML, match="nested deeper than 100 levels"):
        parse("\n".join(lines))


_SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text() | st.floats(allow_nan=False)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(_VALUES)
def test_dumped_values_read_back(value: object) -> None:
    """What a YAML writer writes is read as what it was."""
    assert parse(yaml.safe_dump(value)).value == value


@given(st.text(alphabet="ab:-[]{}&*!<>|?#%@'\"\\ \n\t01~,", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    """No text gives anything but a value or InvalidYAML."""
    try:
        parse(text)
    except InvalidYAML as error:
        assert error.line >= 1


@pytest.mark.parametrize(
    "text",
    ["a: b", 'a: "\\0b\\U0001F600"', "\ufeffa: \u00e9", "a: &x !!str |\n  b\n\n  c", "[a, *x]", "\t: a"],
)
def test_events_are_those_of_another_binding(text: str) -> None:
    """Our reading of the parser's events loses nothing that PyYAML, which asks the same parser, finds in them."""
    ours, theirs = [], []
    with contextlib.suppress(Fault):
        for event in read_events(text):
            ours.append((event.line, event.anchor, event.tag, event.value))
    with contextlib.suppress(yaml.YAMLError):
        for event in yaml.parse(text, yaml.CSafeLoader):
            tag = getattr(event, "tag", None) if isinstance(event, yaml.ScalarEvent) else None
            value = getattr(event, "value", "")
            theirs.append((event.start_mark.line + 1, getattr(event, "anchor", None) or "", tag or "", value))
    assert ours == theirs
