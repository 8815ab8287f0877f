"""`python -m bench`: what `spansieve bench` runs."""

from __future__ import annotations

import sys

import click

from bench.command import bench


def main(arguments: list[str], name: str = "python -m bench") -> int:
    """Return the exit code of a command line."""
    try:
        return int(bench.main(arguments, prog_name=name, standalone_mode=False) or 0)
    except click.ClickException as error:
        error.show()
    except click.Abort:
        click.echo("Error: aborted", err=True)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
