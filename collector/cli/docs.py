"""`spansieve docs`: the reference pages of this installation."""

from __future__ import annotations

from pathlib import Path

from collector.cli.output import tell, warn
from collector.config.reference import UnknownPage, find_pages, index, pages
from collector.config.schema import left_out
from collector.registry import Registry


def docs(component: str | None, output: str | None, registry: Registry) -> int:
    """Print the pages of component, or the index; with output write all, or those of component, into that folder."""
    warn(left_out(registry))
    try:
        chosen = find_pages(registry, component) if component else [index(registry)]
    except UnknownPage as error:
        return tell(str(error))
    if output is None:
        print("\n".join(page.text for page in chosen), end="")
        return 0
    for page in chosen if component else (*chosen, *pages(registry)):
        path = Path(output, page.file)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(page.text, encoding="utf-8")
        except OSError as error:
            return tell(f"cannot write {str(path)!r}: {(error.strerror or str(error)).lower()}")
    return 0
