"""The programs: how each is built, once for each state of its files, and run as a user would."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Self

import pytest

from tests.interop.harness import ROOT
from tests.interop.sdk.scenario import Made

_HERE = Path(__file__).parent
_BUILD_S = 600
_RUN_S = 90


@dataclasses.dataclass(frozen=True)
class Language:
    """One SDK, or another library of a language.

    Attributes:
        name: of the folder under build/sdk.
        tools: executables that building and running it take.
        manifest: files that pin the versions; while they stay as they are, nothing is downloaded again.
        source: the program.
        fetch, compile: commands, run in the build folder; what they make stays there.
        run: the command, relative to the build folder.
        sources: folder of manifest and source; None for that of the name, here.
    """

    name: str
    tools: tuple[str, ...]
    manifest: tuple[str, ...]
    source: str
    fetch: tuple[tuple[str, ...], ...]
    compile: tuple[tuple[str, ...], ...]
    run: tuple[str, ...]
    sources: Path | None = None

    @property
    def folder(self) -> Path:
        """Where manifest and source lie."""
        return self.sources or _HERE / self.name


PIP = ("venv/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")

LANGUAGES = {
    language.name: language
    for language in (
        Language(
            name="python",
            tools=(),
            manifest=("requirements.txt",),
            source="program.py",
            fetch=((sys.executable, "-m", "venv", "venv"), (*PIP, "-r", "requirements.txt")),
            compile=(),
            run=("venv/bin/opentelemetry-instrument", "venv/bin/python", "program.py"),
        ),
        Language(
            name="node",
            tools=("node", "npm"),
            manifest=("package.json",),
            source="program.mjs",
            fetch=(("npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"),),
            compile=(),
            run=("node", "program.mjs"),
        ),
        Language(
            name="java",
            tools=("java", "javac", "mvn"),
            manifest=("pom.xml",),
            source="Program.java",
            fetch=(
                ("mvn", "--batch-mode", "--quiet", "dependency:copy-dependencies", "-DoutputDirectory=lib"),
            ),
            compile=(("javac", "-cp", "lib/*", "-d", "classes", "Program.java"),),
            run=("java", "-cp", "classes:lib/*", "Program"),
        ),
        Language(
            name="go",
            tools=("go",),
            manifest=("go.mod", "go.sum"),
            source="program.go",
            fetch=(("go", "mod", "download"),),
            compile=(("go", "build", "-p", "2", "-o", "program", "."),),
            run=("./program",),
        ),
        Language(
            name="rust",
            tools=("cargo",),
            manifest=("Cargo.toml",),
            source="program.rs",
            fetch=(("cargo", "fetch", "--quiet"),),
            compile=(("cargo", "build", "--quiet", "--offline", "--jobs", "2"),),
            run=("target/debug/program",),
        ),
    )
}


@functools.cache
def build(language: Language) -> Path:
    """Return the folder that holds the built program, or skip the test where a tool is missing.

    Raises:
        AssertionError: a command failed; the message is what it said.
    """
    name = language.name
    if missing := [tool for tool in language.tools if shutil.which(tool) is None]:
        pytest.skip(f"{name} needs {', '.join(missing)}, which is not installed")
    folder = ROOT / "build" / "sdk" / name
    folder.mkdir(parents=True, exist_ok=True)
    for stage, files, commands in (
        ("fetched", language.manifest, language.fetch),
        ("compiled", (*language.manifest, language.source), language.compile),
    ):
        stamp = folder / f".{stage}"
        key = _key(language.folder, files, commands)
        if stamp.exists() and stamp.read_text() == key:
            continue
        stamp.unlink(missing_ok=True)
        for file in files:
            shutil.copy(language.folder / file, folder)
        for command in commands:
            done = subprocess.run(
                command, cwd=folder, capture_output=True, check=False, text=True, timeout=_BUILD_S
            )
            assert done.returncode == 0, f"{' '.join(command)}:\n{done.stdout}{done.stderr}"
        stamp.write_text(key)
    return folder


def _key(folder: Path, files: tuple[str, ...], commands: tuple[tuple[str, ...], ...]) -> str:
    digest = hashlib.sha256(repr(commands).encode())
    for file in files:
        digest.update((folder / file).read_bytes())
    return digest.hexdigest()


class Program:
    """A program, running; its environment is what a user has set, and nothing of ours."""

    def __init__(
        self, language: str, environment: Mapping[str, str], rounds: int, pause: int | None = None
    ) -> None:
        folder = build(LANGUAGES[language])
        command = [*LANGUAGES[language].run, str(rounds), *([] if pause is None else [str(pause)])]
        if "/" in command[0]:
            command[0] = str(folder / command[0])
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        self._process = subprocess.Popen(
            command,
            cwd=folder,
            env={"LC_ALL": "C.UTF-8", **kept, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()

    def wait_for(self, line: str) -> None:
        """Wait until it prints the line."""
        stdout: IO[str] | None = self._process.stdout
        assert stdout is not None
        found = stdout.readline().strip()
        assert line == found, f"{found!r} in place of {line!r}: {self._end()[1]}"

    def go_on(self) -> None:
        """Let it go on from its pause."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def finish(self) -> tuple[Made, str]:
        """Wait for its end, which must be a good one; return the ids that it made and what the SDK said."""
        output, said = self._end()
        assert self._process.returncode == 0, said
        return json.loads(output.splitlines()[-1]), said

    def _end(self) -> tuple[str, str]:
        try:
            return self._process.communicate(timeout=_RUN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise


def run(language: str, environment: Mapping[str, str], rounds: int) -> tuple[Made, str]:
    """Run a program to its end; return the ids that it made and what the SDK said."""
    with Program(language, environment, rounds) as program:
        return program.finish()
