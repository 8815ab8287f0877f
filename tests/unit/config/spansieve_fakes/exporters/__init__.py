"""Fake exporters."""
