"""Print what the build, the collector and its development need, one requirement a line, from pyproject.toml."""

from __future__ import annotations

import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
for requirement in (
    *project["build-system"]["requires"],
    *project["project"]["dependencies"],
    *project["project"]["optional-dependencies"]["dev"],
    *project["project"]["optional-dependencies"]["bench"],
):
    print(requirement)
