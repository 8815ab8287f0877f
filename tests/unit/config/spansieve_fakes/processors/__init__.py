"""Fake processors."""
