"""`spansieve validate --fix FILE`: write a configuration as it should be today."""

from __future__ import annotations

import difflib
import os
import shutil
import sys
import tempfile

import yaml

from collector.cli import Options
from collector.cli.output import tell, warn
from collector.config.fix import fix as fix_text
from collector.config.load import load
from collector.errors import ConfigError, Problem
from collector.registry import Registry

_BYTE_ORDER_MARK = "\ufeff"


def fix(options: Options, path: str, *, is_dry: bool) -> int:
    """Mend the file at path and show the difference; return 0 when the result is a good configuration.

    Args:
        is_dry: whether to leave the file as it is.
    """
    if options.configs or options.sets:
        return tell("--fix mends the file that it names: no --config or --set beside it")
    try:
        with open(path, encoding="utf-8", newline="") as file:
            old = file.read()
    except (OSError, UnicodeError) as error:
        return tell(f"cannot read {path!r}: {_reason(error)}")
    mark = _BYTE_ORDER_MARK if old.startswith(_BYTE_ORDER_MARK) else ""
    before = _problems(old.removeprefix(mark), path)
    if before is None:
        return tell(f"{path}: not a configuration by itself: mend it in a file of its own")
    try:
        fixed = fix_text(old.removeprefix(mark))
    except yaml.YAMLError:
        return _report(before)
    new = mark + fixed.text
    after = _problems(fixed.text, path)
    if after is None or len(after) > len(before):
        _report(after or ())
        return tell(
            f"{path}: left as it is: what --fix made of it has more problems, those above; please report it"
        )
    for line in difflib.unified_diff(old.splitlines(), new.splitlines(), path, path, lineterm=""):
        print(line)
    if new != old and not is_dry:
        try:
            _write(path, new)
        except OSError as error:
            return tell(f"cannot write {path!r}: {_reason(error)}")
    warn(f"{what}: mend it by hand" for what in fixed.left)
    return _report(after)


def _problems(text: str, path: str) -> tuple[Problem, ...] | None:
    """Return what is wrong with text; None when it is something with a configuration inside."""
    try:
        document = load([f"yaml:{text}"], [], Registry())
    except ConfigError as error:
        return tuple(
            Problem(path + problem.path.removeprefix("yaml"), problem.message)
            if problem.path.startswith("yaml")
            else Problem(problem.path, problem.message.replace("(yaml:", f"({path}:"))
            for problem in error.problems
        )
    return None if document.notes else ()


def _report(problems: tuple[Problem, ...]) -> int:
    for problem in problems:
        print(f"Error: invalid configuration: {problem}", file=sys.stderr)
    return 1 if problems else 0


def _write(path: str, text: str) -> None:
    """Put text in the place of the file, as a whole or not at all."""
    real = os.path.realpath(path)
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(real))
    try:
        with open(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        shutil.copymode(real, temporary)
        os.replace(temporary, real)
    except BaseException:
        os.unlink(temporary)
        raise


def _reason(error: OSError | UnicodeError) -> str:
    if isinstance(error, OSError):
        return (error.strerror or str(error)).lower()
    return "not UTF-8 text"
