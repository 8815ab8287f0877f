"""What is wrong with text that is no YAML, and what to do about it.

The parser's own words come first: the Collector's parser has the same, and they are what people search for. They say
which rule was broken, not which mistake breaks it, so the likely one follows. Loaded when there is a fault only.
"""

from __future__ import annotations

from collector.lean import pattern
from collector.native.yaml import Fault

# Words of a problem, and the advice; LINE is where the thing that is read begins.
_ADVICE = (
    ("alphabetic or numeric", "'*' and '&' begin references: put the text in quotes"),
    ("escape character", "put the text in single quotes, in which a backslash is one"),
    ("hexdecimal number", "put the text in single quotes, in which a backslash is one"),
    ("expected ':'", "a key needs ': ' behind it"),
    ("incompatible YAML", "remove the line that begins with '%YAML'"),
    ("expected key", "the map of line LINE goes on at another depth, or something follows a quoted text"),
    ("'-' indicator", "the list of line LINE goes on at another depth, or without '-'"),
    ("',' or ']'", "the '[' of line LINE is not closed, or a comma is missing"),
    ("',' or '}'", "the '{' of line LINE is not closed, or a comma is missing"),
    ("end of stream", "the quote of line LINE is not closed"),
    ("<document start>", "it is less deep than what is above"),
    ("sequence entries", "a list begins on the line below its key"),
)
_RULE_OF_VALUES = "mapping values are not allowed"
_SPACED_COLON = pattern(r":\s")
_LINE_BREAK = pattern("\r\n|[\r\n\x85\u2028\u2029]")


def explain(fault: Fault, text: str) -> tuple[str, int]:
    """Return what is wrong with text, and its line from 1."""
    if not fault.begin:
        return _explain_character(fault, text)
    advice = _advice(fault.problem, text[fault.offset : fault.offset + 1], text[: fault.offset])
    return f"{fault.problem}{advice and '; '}{advice.replace('LINE', str(fault.begin))}", fault.line


def _advice(problem: str, found: str, before: str) -> str:
    if found == "\t":
        return "there is a tab: indent with spaces"
    if problem.startswith(_RULE_OF_VALUES):
        if _SPACED_COLON.search(_LINE_BREAK.split(before)[-1]):
            return "a text with ': ' in it needs quotes"
        return "the line above lacks its ': ', or this one is too deep"
    for words, advice in _ADVICE:
        if words in problem:
            return advice
    if not found:
        return "the text ends here: a '{' or '[' is not closed"
    return f"a text that begins with {found!r} needs quotes" if found in tuple("@`%!?]},") else ""


def _explain_character(fault: Fault, text: str) -> tuple[str, int]:
    before = text.encode()[: fault.offset].decode()
    character = ord(text[len(before)])
    doubt = "" if character else "; is the text in UTF-8?"
    return f"{fault.problem}: U+{character:04X}{doubt}", len(_LINE_BREAK.split(before))
