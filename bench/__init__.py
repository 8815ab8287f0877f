"""What spansieve costs, measured beside a yardstick in one run; `python -m bench`, read `bench/README.md`."""
