"""`python -m collector` is `spansieve`."""

from collector.cli import main

main()
