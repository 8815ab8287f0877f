"""A tree of components for tests of configuration; nothing in it can run."""
