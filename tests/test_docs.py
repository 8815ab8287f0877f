"""Documentation that cannot rot: what READMEs show is loaded, run or compared."""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from collector.config.fields import Duration
from collector.config.load import load
from collector.config.sections import ServiceSection
from collector.config.values import format_duration
from collector.ids import Kind
from collector.lean import fields, is_record
from collector.registry import Registry

ROOT = Path(__file__).parents[1]
READMES = [*sorted(ROOT.glob("[!.]*/README.md")), ROOT / "README.md"]
CONFIGS = sorted((ROOT / "deploy").rglob("*.yaml"))


def blocks(path: Path, language: str) -> list[str]:
    """Return the fenced blocks of language in a Markdown file."""
    return re.findall(rf"^```{language}\n(.*?)^```$", path.read_text(), re.MULTILINE | re.DOTALL)


EXAMPLES = [
    pytest.param(block, id=f"{path.parent.name}-{number}")
    for path in READMES
    for number, block in enumerate(blocks(path, "yaml"))
]


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_deployed_configuration_is_valid(path: Path) -> None:
    """Every file loads, without a warning."""
    assert () == load([str(path)], (), Registry()).warnings


@pytest.mark.parametrize("example", EXAMPLES)
def test_example_configuration_is_valid(example: str) -> None:
    """Every YAML in a README loads, without a warning."""
    assert () == load([f"yaml:{example}"], (), Registry()).warnings


@pytest.mark.parametrize("path", READMES, ids=lambda path: path.parent.name)
def test_links_lead_somewhere(path: Path) -> None:
    """Every relative link of a README names a file."""
    targets = re.findall(r"\]\((?!http)([^)#]+)", path.read_text())
    assert [] == [target for target in targets if not (path.parent / target).exists()]


def test_every_folder_has_a_readme() -> None:
    """Each of the top-level folders explains itself."""
    folders = {"bench", "collector", "deploy", "native", "proto", "tests"}
    assert folders == {path.parent.name for path in READMES} - {ROOT.name}


def test_components_table_lists_all_components() -> None:
    """The README's table has exactly the components that are there, with their signals."""
    expected = []
    for kind in Kind:
        for type in Registry().types(kind):
            signals = sorted(Registry().find(kind, type).factory.signals, key=lambda signal: signal.number)
            expected.append((kind.singular, type, ", ".join(signal.value for signal in signals)))
    rows = re.findall(
        r"^\| (\w+) \| `(\w+)` \| ([\w, ]*?) ?\|", (ROOT / "README.md").read_text(), re.MULTILINE
    )
    assert sorted(expected) == sorted(rows)


def test_keys_table_lists_the_keys_that_the_collector_lacks() -> None:
    """The README's table has exactly our own keys, each with its default and description."""
    expected = [
        f"| `service::{path}` | {default} | {doc} |" for path, default, doc in our_keys(ServiceSection)
    ]
    for kind in Kind:
        for type in Registry().types(kind):
            keys = our_keys(Registry().find(kind, type).factory.config)
            expected += [
                f"| `{kind.value}::{type}::{path}` | {default} | {doc} |" for path, default, doc in keys
            ]
    rows = re.findall(r"^\| `\w+::.*$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert sorted(expected) == sorted(rows)


def our_keys(config: type[Any]) -> Iterator[tuple[str, str, str]]:
    """Yield path, default and description of the options that are marked as ours, nested ones too."""
    for field in fields(config):
        option = field.metadata
        if option.ours:
            yield field.name, show(field.default, field.type), option.doc
        for nested in nested_configs(field.type):
            for path, default, doc in our_keys(nested):
                yield f"{field.name}::{path}", default, doc


def show(default: Any, hint: Any) -> str:
    """Return a default as one would write it in YAML; a list by its items."""
    if isinstance(default, tuple):
        return ", ".join(show(item, None) for item in default)
    if hint is Duration:
        return f"`{format_duration(default)}`"
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def nested_configs(hint: Any) -> list[type[Any]]:
    """Return the configuration classes in an annotation."""
    if is_record(hint):
        return [typing.cast("type[Any]", hint)]
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) in (tuple, dict):
        return [config for part in typing.get_args(hint) for config in nested_configs(part)]
    return []
