"""Reference pages: complete, true, and readable as Markdown."""

from __future__ import annotations

import enum
import re
from pathlib import Path

import pytest

from collector.cli.docs import docs
from collector.config.decode import decode
from collector.config.fields import Duration, Secret, option, section
from collector.config.reference import (
    UnknownPage,
    component_page,
    default_text,
    find_pages,
    index,
    pages,
    rows,
)
from collector.config.schema import Found, components
from collector.config.syntax import parse
from collector.ids import Kind
from collector.lean import Any
from collector.registry import Registry

FOUND = list(components(Registry()))


class Colour(enum.StrEnum):
    """A choice."""

    RED = "red"
    BLUE = "blue"


@section
class Leaf:
    """An entry."""

    key: str = option(doc="A key.")


@section
class Tree:
    """Every kind of key."""

    wait: Duration = option(Duration(0.2), doc="A wait.", minimum=0)
    size: int = option(7, doc="A size.", unit="MiB", minimum=1, maximum=9)
    ratio: float = option(0.5, doc="A ratio.", maximum=1)
    is_on: bool = option(True, doc="A switch.")
    colour: Colour = option(Colour.RED, doc="A colour.", ours=True)
    level: str = option("info", doc="A level.", choices=("info", "warn"))
    token: Secret = option(Secret(""), doc="A secret.")
    names: tuple[str, ...] = option(("a", "b"), doc="Names.")
    leaves: tuple[Leaf, ...] = option((), doc="Leaves.")
    by_name: dict[str, Leaf] = option(factory=dict, doc="Leaves by name.")
    leaf: Leaf | None = option(None, doc="A leaf.")
    limits: dict[str, int] = option(factory=dict, doc="Limits.")
    other: Any = option(None, doc="Whatever.")


def test_rows() -> None:
    """Types in words, defaults as YAML, keys of inner sections behind their own."""
    assert [
        ("wait", "duration, not negative", "`200ms`"),
        ("size", "whole number (MiB) from 1 to 9", "`7`"),
        ("ratio", "number, at most 1", "`0.5`"),
        ("is_on", "true or false", "`true`"),
        ("colour", "one of `red`, `blue`", "`red`"),
        ("level", "one of `info`, `warn`", "`info`"),
        ("token", "secret text", '`""`'),
        ("names", "list of texts", "`a`, `b`"),
        ("leaves", "list of sections", "`[]`"),
        ("leaves::*::key", "text", "required"),
        ("by_name", "map to section", "`{}`"),
        ("by_name::*::key", "text", "required"),
        ("leaf", "section", ""),
        ("leaf::key", "text", "required"),
        ("limits", "map to whole number", "`{}`"),
        ("other", "anything", ""),
    ] == [(row.path, row.type, default_text(row)) for row in rows(Tree)]
    assert ["colour"] == [row.path for row in rows(Tree) if row.option.ours]


@pytest.mark.parametrize("found", FOUND, ids=lambda found: found.registered.type)
class TestPages:
    """One for each component."""

    def test_page_is_complete(self, found: Found) -> None:
        """Name, all keys, our own marked, and tables whose lines have as many cells as their heads."""
        text = component_page(found).text
        assert text.startswith(f"# {found.kind.singular.capitalize()} `{found.registered.type}`\n\n")
        for row in rows(found.registered.factory.config):
            assert f"\n| `{row.path}` | " in text
        n_ours = sum(row.option.ours for row in rows(found.registered.factory.config))
        assert n_ours == text.count("| **Ours.** ")
        for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
            assert 1 == len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()})

    def test_example_is_a_configuration(self, found: Found) -> None:
        """What the page shows is taken by the decoder."""
        (block,) = re.findall(r"```yaml\n(.*?)```", component_page(found).text, re.DOTALL)
        value = parse(block).value[found.kind.value][found.registered.type]
        decode(found.registered.factory.config, value, "")

    def test_every_key_is_documented(self, found: Found) -> None:
        """In a sentence."""
        assert [] == [
            row for row in rows(found.registered.factory.config) if not row.option.doc.endswith(".")
        ]


def test_index_links_to_all_pages() -> None:
    """The list has every page, under the file that it is written to."""
    linked = re.findall(r"\]\((.*?)\)", index(Registry()).text)
    assert linked == [page.file for page in pages(Registry())]
    assert len(FOUND) + 1 == len(linked)


def test_index_lists_the_keys_that_the_collector_lacks() -> None:
    """Each key that a page marks as ours, with the whole path, its default and description."""
    text = index(Registry()).text
    marked = sum(page.text.count("| **Ours.** ") for page in pages(Registry()))
    assert marked == len(re.findall(r"^\| `\w+::", text, re.MULTILINE))
    doc = "Split batches that would be larger when serialized, unless one item alone is; 0 is no limit."
    assert f"\n| `processors::batch::send_batch_max_bytes` | `4000000` | {doc}" in text
    assert "\n| `service::shutdown_timeout` | `25s` | " in text


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("batch", ["processors/batch.md"]),
        ("processors/batch", ["processors/batch.md"]),
        ("processor/batch", ["processors/batch.md"]),
        ("otlphttp", ["exporters/otlp_http.md"]),
        ("otlp", ["receivers/otlp.md", "exporters/otlp_grpc.md"]),
        ("exporters/otlp", ["exporters/otlp_grpc.md"]),
        ("service", ["service.md"]),
    ],
)
def test_pages_are_found(name: str, files: list[str]) -> None:
    """By type, older name, and with the kind in front."""
    assert files == [page.file for page in find_pages(Registry(), name)]


def test_unknown_page() -> None:
    """The nearest name is offered."""
    with pytest.raises(UnknownPage, match="there is no component 'bacth'; did you mean 'batch'"):
        find_pages(Registry(), "bacth")


class TestCommand:
    """`spansieve docs`."""

    def test_prints(self, capsys: pytest.CaptureFixture[str]) -> None:
        """The index without a name, a page with one, an error for what is not there."""
        assert 0 == docs(None, None, Registry())
        assert index(Registry()).text == capsys.readouterr().out
        assert 0 == docs("debug", None, Registry())
        assert capsys.readouterr().out.startswith("# Exporter `debug`\n")
        assert 1 == docs("x", None, Registry())
        assert capsys.readouterr().err.startswith("Error: there is no component 'x'")

    def test_writes(self, tmp_path: Path) -> None:
        """Everything, in folders by kind; with a name that page only."""
        assert 0 == docs(None, str(tmp_path / "all"), Registry())
        written = {str(path.relative_to(tmp_path / "all")) for path in (tmp_path / "all").rglob("*.md")}
        assert {"index.md", *(page.file for page in pages(Registry()))} == written
        assert 0 == docs("batch", str(tmp_path / "one"), Registry())
        assert [tmp_path / "one/processors/batch.md"] == list((tmp_path / "one").rglob("*.md"))

    def test_folder_that_cannot_be_written(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """An error, not a traceback."""
        (tmp_path / "file").touch()
        assert 1 == docs("batch", str(tmp_path / "file"), Registry())
        assert "Error: " in capsys.readouterr().err


def test_service_page_has_the_pipelines() -> None:
    """With the keys of each."""
    text = find_pages(Registry(), "service")[0].text
    assert "\n| `pipelines::*::receivers` | list of ids | `[]` |" in text
    assert "\n| `telemetry::metrics::readers::*::pull::exporter::prometheus::port` |" in text


def test_kinds_are_in_order() -> None:
    """As in a configuration."""
    order = [found.kind for found in FOUND]
    assert order == sorted(order, key=list(Kind).index)
