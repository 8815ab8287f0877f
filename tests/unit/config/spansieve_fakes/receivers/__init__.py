"""Fake receivers."""
