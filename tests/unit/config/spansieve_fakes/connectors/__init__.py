"""Fake connectors."""
