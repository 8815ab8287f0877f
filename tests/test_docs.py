"""Documentation that cannot rot: what READMEs show is loaded, run or compared."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from collector.config.load import load
from collector.ids import Kind
from collector.native.sampler import SDK
from collector.registry import Registry

ROOT = Path(__file__).parents[1]
READMES = [*sorted(ROOT.glob("[!.]*/README.md")), ROOT / "README.md"]
PAGES = [*READMES, ROOT / "deploy" / "sampling.md"]
CONFIGS = sorted((ROOT / "deploy" / "config").glob("*.yaml"))


def blocks(path: Path, language: str) -> list[str]:
    """Return the fenced blocks of language in a Markdown file."""
    return re.findall(rf"^```{language}\n(.*?)^```$", path.read_text(), re.MULTILINE | re.DOTALL)


EXAMPLES = [
    pytest.param(block, id=f"{path.parent.name}-{number}")
    for path in PAGES
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


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.parent.name)
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
    listed = re.findall(
        r"^\| (\w+) \| `(\w+)` \| ([\w, ]*?) ?\|", (ROOT / "README.md").read_text(), re.MULTILINE
    )
    assert sorted(expected) == sorted(listed)


def test_sampling_page_names_every_sdk() -> None:
    """The table of head samplers has a row for each `sdk`, names no other, and the versions that were asked."""
    recorded = (ROOT / "tests" / "data" / "sampler" / "sdk_ratio.txt").read_text()
    versions = set(re.findall(r"^[a-z]+ ([\d.]+)", recorded, re.MULTILINE))
    page = (ROOT / "deploy" / "sampling.md").read_text()
    assert [] == [version for version in versions if version not in page]
    listed = re.findall(r"^\|[^|]*\| `(\w+)` \|", page, re.MULTILINE)
    assert {sdk.name.lower() for sdk in SDK} == set(listed)
