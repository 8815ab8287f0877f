"""Print requirements from pyproject.toml, one a line: of the build, the collector and its development, or of an extra.

Usage: requirements.py [EXTRA]
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
extras = project["project"]["optional-dependencies"]
everything = (
    *project["build-system"]["requires"],
    *project["project"]["dependencies"],
    *extras["dev"],
    *extras["bench"],
)
for requirement in extras[sys.argv[1]] if len(sys.argv) > 1 else everything:
    print(requirement)
