"""References in values."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.config.expand import UNKNOWN, Expanded, Expander, plain
from collector.config.sources import read

ENVIRON = {
    "HOST": "a",
    "PORT": "1",
    "A": "1",
    "B": "2",
    "ID": "0123",
    "EXP": "1e3",
    "TRUE": "true",
    "QUOTED": "'x'",
    "LIST": "[1, '${env:B}']",
    "MAP": "k: $${x}\nv: ${env:HOST}",
    "EMPTY": "",
    "NAME": "HOST",
    "BAD": "a: b: c",
    "DOLLARS": "x$$y",
    "SELF": "${env:SELF}",
    "PING": "[${env:PONG}]",
    "PONG": "[${env:PING}]",
    "MANY": "${env:A} " * 11_000,
}


def expand(value: Any) -> Any:
    """Return value with its references replaced; there must be no problem."""
    expander = Expander(lambda uri: read(uri, "env", ENVIRON))
    expanded = expander.expand({"key": value})["key"]
    assert expander.problems == []
    return expanded


def problem_of(value: Any) -> str:
    """Return the only problem of value."""
    expander = Expander(lambda uri: read(uri, "env", ENVIRON))
    assert expander.expand({"key": value})["key"] is UNKNOWN
    (problem,) = expander.problems
    assert problem.path == "key"
    return problem.message


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("plain", "plain"),
        ("${env:HOST}:${env:PORT}", "a:1"),
        ("${env:A}${env:B}", "12"),
        ("${HOST}", "a"),
        ("${env:ID}", Expanded(83, "0123")),
        ("x${env:ID}", "x0123"),
        ("${env:EXP}", Expanded(1000.0, "1e3")),
        ("${env:TRUE}", Expanded(True, "true")),
        ("${env:QUOTED}", "'x'"),
        ("${env:UNSET:-10}", Expanded(10, "10")),
        ("${env:UNSET:-a:-b}", "a:-b"),
        ("${env:UNSET:-${env:PORT}}", Expanded(1, "1")),
        ("${env:EMPTY:-10}", Expanded(None, "")),
        ("x${env:EMPTY}y", "xy"),
        ("${env:UNSET}", Expanded(None, "")),
        ("${env:${NAME}}", "a"),
        ("${env:BAD}", "a: b: c"),
        ("${yaml:[1, 2]}", Expanded([1, 2], "[1, 2]")),
        ("${env:LIST}", Expanded([1, Expanded(2, "2")], "[1, '2']")),
        ("$HOST", "$HOST"),
        ("$", "$"),
        ("a$b", "a$b"),
        ("$$", "$"),
        ("$$$", "$$"),
        ("$$HOST", "$HOST"),
        ("$${HOST}", "${HOST}"),
        ("$$${HOST}", "$a"),
        ("$$$${HOST}", "$${HOST}"),
        ("$${env:A}:${env:PORT}", "${env:A}:1"),
        ("$${a ${HOST}}", "${a a}"),
        ("${env:UNSET:-$${x}}", "${x}"),
        ("${HOST", "${HOST"),
        ("${a ${HOST}", "${a a"),
        ("}", "}"),
        ("{${HOST}}", "{a}"),
        ("${env:DOLLARS}", "x$y"),
    ],
)
def test_text_expands(text: str, value: object) -> None:
    """References, defaults, nesting and escapes give what the Collector's users expect."""
    assert expand(text) == value


def test_map_from_a_variable_is_expanded_again() -> None:
    """Values inside a structured reference are expanded and unescaped like any other."""
    assert plain(expand("${env:MAP}")) == {"k": "${x}", "v": "a"}


def test_lists_and_maps_are_walked_but_keys_are_not() -> None:
    """Only values hold references."""
    assert plain(expand({"${HOST}": ["${HOST}", {"x": "${PORT}"}]})) == {"${HOST}": ["a", {"x": 1}]}


def test_file_gives_its_content(tmp_path: Path) -> None:
    """A file is a value as YAML, or text without the newline at its end."""
    token, numbers = tmp_path / "token", tmp_path / "numbers.yaml"
    token.write_text("s3cret\n")
    numbers.write_text("a: 1\nb: [2]\n")
    assert expand(f"Bearer ${{file:{token}}}") == "Bearer s3cret"
    assert expand(f"${{file:{token}}}") == "s3cret"
    assert plain(expand(f"${{file:{numbers}}}")) == {"a": 1, "b": [2]}


def test_unset_variable_warns_where_it_is_used() -> None:
    """A variable that is not set is null, and said once for each value."""
    expander = Expander(lambda uri: read(uri, "env", {}))
    assert plain(expander.expand({"a": "${X}${X}", "b": ["${X}"]})) == {"a": "", "b": [None]}
    warning = 'configuration references unset environment variable "X"'
    assert [("a", warning), ("b::0", warning)] == [(path, text) for path, text, _ in expander.warnings]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("${env:SELF}", "too many recursive expansions"),
        ("${env:PING}", "too many recursive expansions"),
        ("${env:MANY}", "too many recursive expansions"),
        ("${1}", 'environment variable "1" has invalid name: must match regex ^[a-zA-Z_][a-zA-Z0-9_]*$'),
        ("${}", 'environment variable "" has invalid name: must match regex ^[a-zA-Z_][a-zA-Z0-9_]*$'),
        ("${s3:x}", 'scheme "s3" is not supported for uri "s3:x"; known: env, file, http, https, yaml'),
        ("${file:/nowhere}", "cannot read '/nowhere': no such file or directory"),
    ],
)
def test_faulty_reference_is_told(text: str, message: str) -> None:
    """A reference that leads nowhere, or round in a circle, is a problem of its value."""
    assert problem_of(text) == message


def test_other_values_are_expanded_beside_a_faulty_one() -> None:
    """All faulty references are told in one run."""
    expander = Expander(lambda uri: read(uri, "env", ENVIRON))
    expanded = expander.expand({"a": ["${s3:x}", "${HOST}"], "b": "${s3:y}"})
    assert expanded == {"a": [UNKNOWN, "a"], "b": UNKNOWN}
    assert [problem.path for problem in expander.problems] == ["a::0", "b"]


@given(st.text(alphabet="ab${}: ", max_size=30).filter(lambda text: "${" not in text))
def test_text_without_references_only_loses_doubled_dollars(text: str) -> None:
    """Nothing but `$$` is changed where there is no reference."""
    assert expand(text) == text.replace("$$", "$")


@given(st.text())
def test_escaped_text_comes_back(text: str) -> None:
    """Doubling every dollar sign makes any text stand for itself."""
    assert expand(text.replace("$", "$$")) == text


@given(st.text(alphabet="ab${}:-", max_size=40))
def test_any_text_expands_or_is_told(text: str) -> None:
    """No text breaks the expansion."""
    expander = Expander(lambda uri: read(uri, "env", ENVIRON))
    expander.expand({"key": text})


@given(st.text(alphabet=st.characters(exclude_characters="$", codec="utf-8")))
def test_text_from_a_variable_keeps_its_characters(text: str) -> None:
    """A text field gets a variable as it is, whatever YAML would make of it; but for a newline at its end."""
    expander = Expander(lambda uri: read(uri, "env", {"X": text}))
    expanded = expander.expand({"key": "${env:X}"})["key"]
    kept = expanded.text if isinstance(expanded, Expanded) else expanded
    assert kept == (text[:-2] if text.endswith("\r\n") else text.removesuffix("\n"))


MARKS = ":#'\"{}[]$%&*!|>@`,?-~=<+.()\\/^;_\t\n\u00e9"
WRITTEN = [
    text.format(mark) for mark in MARKS.replace("{", "").replace("}", "")
    for text in ("{0}", "{0}{0}", "a{0}b", "{0}b", "a{0}", "{0} b", "a {0} b", "a {0}", "a{0} b", " {0}b ", "a {0}b")
] + [
    "{", "}", "{}", "{a: b}", "{a", "a}", "a{b}c", "{{a}}", "${", "}$", "$(a)", "", " ", "  ", " a", "a ", "\ta", "a\t",
    "1", "-1", "+1", "1.5", "1e3", "0x10", "0o17", "017", "1_000", "007", "1 # one", "12:30:45", "2024-01-01", "1s",
    "true", "True", "yes", "off", "null", "~", "None", ".inf", ".nan", "9223372036854775808", "'a'", '"a"', '"a\\nb"',
    "a: b", "a: b: c", "- a", "- a\n- b", "a: 1\nb: 2", "|\n a", ">\n a\n b", "!!int 5", "&a b", "*a", "%TAG", "---",
    "--- a", "---\na\n---\nb", "# c\na", "a\nb", "a\n\nb", "\na", "a\r\nb", "p@ss:w0rd#1$%&*!|>", "Basic dTpw==",
    "k=v,k2=v2",     "-----BEGIN X-----\nab\n-----END X-----", "\u2028", "\ud7ff\U0001f600",
]  # fmt: skip
"""Each mark that YAML and references know, at each place of a text, and texts that are something else in YAML."""

# What the Collector makes of them where no type is asked for; a text that is not listed is the text.
UNTYPED: dict[str, object] = {
    "::": {":": None}, "a:": {"a": None}, "a : b": {"a": "b"}, "a :": {"a": None}, "a: b": {"a": "b"},
    "#": None, "##": None, "#b": None, "# b": None, " #b ": None, "&b": None, " &b ": None, "~": None, "": None,
    " ": None, "  ": None, "\u2028": None, "---": None, "null": None,
    "? b": {"b": None}, "-": [None], "- b": ["b"], "- a": ["a"], "- a\n- b": ["a", "b"], "{}": {}, "{a: b}": {"a": "b"},
    "a: 1\nb: 2": {"a": 1, "b": 2}, "1": 1, "-1": -1, "+1": 1, "1.5": 1.5, "1e3": 1000.0, "0x10": 16, "0o17": 15,
    "017": 15, "1_000": 1000, "007": 7, "1 # one": 1, "!!int 5": 5, "true": True, "True": True,
    "\n": None, "9223372036854775808": 9223372036854775808, ".inf": math.inf, ".nan": math.nan,
    # Not as the Collector, to which it is no value at all.
    "?": {"": None},
}  # fmt: skip


@pytest.mark.parametrize("source", ["env", "file", "default"])
def test_what_comes_from_outside_is_data(source: str, tmp_path: Path) -> None:
    """A text field has it as it was written, alone or in the middle; only dollars mean more, as in the Collector."""
    path = tmp_path / "value"
    wrong = []
    for text in WRITTEN:
        if source == "default" and not set("${}").isdisjoint(text):
            continue  # a reference ends at the first brace
        path.write_bytes(text.encode())
        reference = {"env": "${env:X}", "file": f"${{file:{path}}}", "default": f"${{env:UNSET:-{text}}}"}[
            source
        ]
        expander = Expander(lambda uri, text=text: read(uri, "env", {"X": text}))
        expanded = expander.expand(
            {"whole": reference, "inside": f"<{reference}>", "twice": reference + reference}
        )
        kept = text.removesuffix("\n").replace("$$", "$")
        untyped = kept if source == "default" and not kept else UNTYPED.get(kept, kept)
        texts = [value.text if isinstance(value, Expanded) else value for value in expanded.values()]
        found = (expander.problems, texts, repr(plain(expanded["whole"])))
        if found != ([], [kept, f"<{kept}>", kept + kept], repr(untyped)):
            wrong.append((text, found))
    assert [] == wrong


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_one_line_break_at_the_end_goes(end: str) -> None:
    """Whichever a file has; what is before it stays."""
    for text in ("s3cret", "a\n", " a ", ""):
        expander = Expander(lambda uri, text=text: read(uri, "env", {"X": f"{text}{end}"}))
        assert f"<{text}>" == expander.expand({"key": "<${env:X}>"})["key"]
