"""Configurations, good and broken, given to both: the same verdict, the same meaning, and words that say no less.

What the Collector's `validate` passes and ours refuses is tried again by starting the Collector: what fails there is
the same verdict, told earlier.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from collector.cli.commands import invoke
from collector.config.values import parse_duration
from tests.interop import config_cases, differences, harness
from tests.interop.config_cases import Case

_KINDS = (
    config_cases.types, config_cases.variables, config_cases.references, config_cases.sets, config_cases.providers,
    config_cases.documents, config_cases.ids, config_cases.components, config_cases.pipelines, config_cases.validation,
    config_cases.unused, config_cases.matches, config_cases.merging, config_cases.examples,
)  # fmt: skip
_READY = "Everything is ready"
_LIMIT_S = 60.0
_START_S = 3.0


class Text(NamedTuple):
    """An outcome that is nothing but words."""

    text: str
    content: tuple[bytes, ...] = ()

    def __str__(self) -> str:
        return self.text


class Said(NamedTuple):
    """What one of the two said to a configuration.

    Attributes:
        is_good: whether it was accepted.
        words: on standard error.
        effective: what print-config printed, of a good one.
    """

    is_good: bool
    words: str
    effective: Mapping[str, Any]


def _arguments(case: Case, folder: Path) -> list[str]:
    folder.mkdir()
    for name, text in case.files.items():
        content = text if isinstance(text, bytes) else text.replace("FOLDER", str(folder)).encode()
        (folder / name).write_bytes(content)
    return [argument.replace("FOLDER", str(folder)) for argument in case.arguments]


def _environ(case: Case) -> dict[str, str]:
    return {"PATH": os.defpath, **case.environ}


def _ask_collector(case: Case, arguments: list[str]) -> Said:
    def ask(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [harness.COLLECTOR, *command, *arguments],
            env=_environ(case),
            capture_output=True,
            check=False,
            text=True,
            errors="replace",
            timeout=_LIMIT_S,
        )

    validated = ask("validate")
    if validated.returncode:
        return Said(False, validated.stderr, {})
    printed = ask("print-config", "--mode=unredacted", "--format=json")
    # A note on a feature gate may stand before it; a number that JSON does not have leaves it empty.
    _, brace, rest = printed.stdout.partition("{")
    return Said(True, "", json.loads(brace + rest or "{}"))


def _start_collector(case: Case, arguments: list[str]) -> Said:
    """Return what starting says; a good configuration is stopped once it runs."""
    with subprocess.Popen(
        [harness.COLLECTOR, *arguments],
        env=_environ(case),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    ) as process:
        assert process.stderr is not None
        # One whose log level hides that it is ready is taken to be so when it has not ended by then.
        hidden = threading.Timer(_START_S, process.terminate)
        hidden.start()
        words = []
        for line in process.stderr:
            words.append(line)
            if _READY in line:
                process.terminate()
        hidden.cancel()
        said = "".join(words)
        # It is ready before it listens for signals.
        return Said(process.wait(_LIMIT_S) == 0 or _READY in said, said, {})


def _ask_spansieve(case: Case, arguments: list[str], patch: pytest.MonkeyPatch) -> Said:
    for name in os.environ:
        patch.delenv(name)
    for name, value in _environ(case).items():
        patch.setenv(name, value)

    def ask(*command: str) -> tuple[int, str, str]:
        out, error = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
            code = invoke([*command, *arguments])
        return code, out.getvalue(), error.getvalue()

    code, _, words = ask("validate")
    if code:
        return Said(False, words, {})
    _, printed, _ = ask("print-config", "--mode=unredacted", "--format=json")
    return Said(True, words, _unescape(json.loads(printed)))


def _unescape(value: Any) -> Any:
    """Undo what lets our print-config run again: where they would mean something, dollar signs are doubled."""
    if isinstance(value, dict):
        return {key: _unescape(item) for key, item in value.items()}
    if isinstance(value, list):
        return list(map(_unescape, value))
    return value.replace("$$", "$") if isinstance(value, str) else value


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, tuple[Case, Said, Said]]]:
    """Ask both of every case."""
    folder = tmp_path_factory.mktemp("configs")
    cases = [made for kind in _KINDS for made in kind()]
    lines = [_arguments(case, folder / str(number)) for number, case in enumerate(cases)]
    with ThreadPoolExecutor(2) as pool:
        theirs = list(pool.map(_ask_collector, cases, lines))
    ours = []
    for case, line in zip(cases, lines, strict=True):
        with pytest.MonkeyPatch.context() as patch:
            ours.append(_ask_spansieve(case, line, patch))
    again = [number for number, said in enumerate(theirs) if said.is_good and not ours[number].is_good]
    with ThreadPoolExecutor(2) as pool:
        started = pool.map(lambda number: _start_collector(cases[number], lines[number]), again)
        for number, said in zip(again, started, strict=True):
            theirs[number] = said
    yield {case.name: (case, *both) for case, *both in zip(cases, theirs, ours, strict=True)}


def _of_kind(answers: Mapping[str, tuple[Case, Said, Said]], kind: Any) -> list[tuple[Case, Said, Said]]:
    return [answers[case.name] for case in kind()]


@pytest.mark.parametrize("kind", _KINDS, ids=lambda kind: kind.__name__)
def test_verdict_is_the_same(answers: Mapping[str, tuple[Case, Said, Said]], kind: Any) -> None:
    """What runs there is accepted here, and what is refused there is refused here."""
    problems = [
        f"{problem}\n    {theirs.words[-400:]}\n    {ours.words[:400]}"
        for case, theirs, ours in _of_kind(answers, kind)
        if (problem := _compare(f"config, {case.name}", _verdict(theirs), _verdict(ours)))
    ]
    assert not problems, f"{len(problems)} not in differences.md:\n" + "\n".join(problems)


@pytest.mark.parametrize("kind", _KINDS, ids=lambda kind: kind.__name__)
def test_refusal_says_no_less(answers: Mapping[str, tuple[Case, Said, Said]], kind: Any) -> None:
    """What the Collector names, we name: component, key, reason; in its words, or in those of differences.md."""
    problems = [
        f"{case.name}: {missing!r} is not in\n    {ours.words}"
        for case, theirs, ours in _of_kind(answers, kind)
        if not theirs.is_good and not ours.is_good
        for missing in _unsaid(theirs.words, ours.words)
    ]
    assert not problems, f"{len(problems)} said less:\n" + "\n".join(problems)


@pytest.mark.parametrize("kind", _KINDS, ids=lambda kind: kind.__name__)
def test_meaning_is_the_same(answers: Mapping[str, tuple[Case, Said, Said]], kind: Any) -> None:
    """Every key that both print has the same value."""
    problems = []
    for case, theirs, ours in _of_kind(answers, kind):
        if theirs.is_good and ours.is_good:
            their_keys, our_keys = dict(_flatten(theirs.effective)), dict(_flatten(ours.effective))
            problems += [
                f"{case.name}: {problem}"
                for key in sorted(their_keys.keys() & our_keys.keys())
                if (problem := _compare(f"effective, {key}", their_keys[key], our_keys[key]))
            ]
    assert not problems, f"{len(problems)} not in differences.md:\n" + "\n".join(problems)


@pytest.mark.usefixtures("whole_module")
def test_every_listed_difference_is_still_there() -> None:
    """A row of differences.md that no case has shown is out of date."""
    out_of_date = differences.out_of_date("config, ", "effective, ", "words")
    assert not out_of_date, "\n".join(map(str, out_of_date))


def _verdict(said: Said) -> str:
    return "good" if said.is_good else "bad"


def _compare(case: str, theirs: str, ours: str) -> str:
    return differences.find(case, {"collector": Text(theirs), "spansieve": Text(ours)})


_WRAPPERS = re.compile(
    r"failed to get config: |cannot (resolve|unmarshal) the configuration: |cannot retrieve the configuration: "
    r"|retrieved value \(type=string\) cannot be used as a Conf: assuming string type since contents are not valid "
    r"YAML: "
    r"|yaml: (unmarshal errors:|line \d+: )?|invalid configuration: |failed to build pipelines: "
    r"|cannot start pipelines: "
    r'|failed to (?:create|start) "[^"]*" (?:exporter|processor|receiver)'
    r'(?:, in pipeline "[^"]*"| for data type "[^"]*")?: '
)
_PLACE = re.compile(r"'([^']*)' |[a-z_]+(?:::[^\s:]+)+: ")
_DURATION = re.compile(r"-?(?:\d+(?:\.\d+)?(?:h|m|s|ms|us|ns))+")
_IDS = re.compile(r'error reading configuration for "([^"]*)"')


def _unsaid(theirs: str, ours: str) -> Iterator[str]:
    """Yield what the Collector says and we do not: names of components and keys, and messages."""
    lines = [line.strip() for line in theirs.splitlines() if line.startswith("Error: ") or not _is_log(line)]
    for line in filter(None, lines):
        words = _WRAPPERS.sub("", line.removeprefix("Error: "))
        for id in _IDS.findall(words):
            yield from [] if id in ours else [id]
        for place in re.findall(r"'([a-z_.]+)' (?:error|decoding|expected|source|time:)", words):
            yield from [name for name in place.split(".") if name not in ours]
        message = _IDS.sub("", words)
        while match := _PLACE.match(message):
            message = message[match.end() :]
        message = message.strip(": ")
        if message.startswith("has invalid keys: "):
            yield from [
                key
                for key in message.split(": ")[1].split(", ")
                if not _says(ours, f"has invalid keys: {key}")
            ]
        elif message and not message.endswith("following error(s)") and not _says(ours, message):
            yield message


def _is_log(line: str) -> bool:
    return re.match(r"\d{4}-\d\d-\d\dT|goroutine|\t|[a-z]+[./]", line) is not None


def _says(ours: str, message: str) -> bool:
    return message in ours or any(not _compare("words", message, line) for line in ours.splitlines())


def _flatten(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield every leaf with its path, written so that equal things are equal texts."""
    if isinstance(value, dict):
        # A map of headers may be written as a list of names and values.
        for key, item in value.items():
            yield from _flatten(item, f"{path}::{key}" if path else str(key))
    elif isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        if all(item.keys() == {"name", "value"} for item in value):
            yield from _flatten({item["name"]: item["value"] for item in value}, path)
        else:
            for number, item in enumerate(value):
                yield from _flatten(item, f"{path}::{number}")
    elif isinstance(value, str) and _DURATION.fullmatch(value):
        yield path, str(round(parse_duration(value) * 1e9))
    elif path.endswith(("level", "verbosity")) and isinstance(value, str):
        yield path, value.lower()
    elif isinstance(value, float) or (type(value) is int and path.endswith("percentage")):
        yield path, f"{value:.6g}"
    elif value or value in (0, False, ""):
        yield path, json.dumps(value, sort_keys=True)
    else:
        yield path, "nothing"
