"""Fake extensions."""
