"""`spansieve bench`: hand over to bench/ of the checkout, which measures what was built there."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

_ROOT = Path(__file__).parents[2]


def bench(arguments: Sequence[str]) -> int:
    """Run the benchmark with arguments and return its exit code."""
    if not (_ROOT / "bench" / "__main__.py").exists():
        return _refuse(
            "it builds its load generator and its peers, so it runs from a checkout: `make bench` there"
        )
    sys.path.insert(0, str(_ROOT))
    try:
        from bench.__main__ import main
    except ModuleNotFoundError as error:
        return _refuse(
            f"{error}; `make build` in the checkout, or `pip install 'spansieve[bench]'`, brings it"
        )
    return main(list(arguments), "spansieve bench")


def _refuse(why: str) -> int:
    print(f"Error: spansieve bench: {why}", file=sys.stderr)
    return 1
