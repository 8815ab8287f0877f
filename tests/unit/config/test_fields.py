from __future__ import annotations

from typing import Any

import pytest

from collector.config.fields import Secret, option, section
from collector.lean import fields, replace


@section
class Inner:
    """A section in a section."""

    size: int = option(1, doc="A number.")


@section
class Config:
    """One field of each kind."""

    name: str = option(doc="Required.")
    timeout: float = option(2.5, doc="With a default.")
    inner: Inner = option(factory=Inner, doc="With a default made anew.")
    headers: dict[str, Any] = option(factory=dict, doc="Mutable.")
    password: Secret = option(Secret(""), doc="Not for logs.")


def test_fields_left_out_take_their_defaults() -> None:
    """A default is the declared one, and what a factory makes is not shared."""
    first, second = Config(name="a"), Config(name="a")
    assert ("a", 2.5, Inner(size=1), {}) == (first.name, first.timeout, first.inner, first.headers)
    assert first.headers is not second.headers


def test_wrong_arguments_are_refused() -> None:
    """A missing required field and one that does not exist are errors that name it."""
    with pytest.raises(TypeError, match="Config needs name"):
        Config()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="Config has no tiemout"):
        Config(name="a", tiemout=1)  # type: ignore[call-arg]


def test_a_section_cannot_be_changed() -> None:
    """Fields can neither be set nor deleted."""
    config = Config(name="a")
    with pytest.raises(AttributeError):
        config.name = "b"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        del config.name
    assert "a" == config.name


def test_sections_compare_by_value() -> None:
    """Equal means the same class and equal fields, to any depth; the hash agrees."""
    assert Config(name="a") == Config(name="a")
    assert Config(name="a") != Config(name="a", inner=Inner(size=2))
    assert Inner(size=1) != 1
    assert hash(Inner(size=1)) == hash(Inner(size=1))


def test_repr_shows_fields_but_no_secret() -> None:
    """What ends up in a log reads like the call that makes it, with secrets left out."""
    text = repr(Config(name="a", password=Secret("hunter2")))
    assert "Config(name='a', timeout=2.5, inner=Inner(size=1), headers={}, password=[REDACTED])" == text


def test_a_section_knows_its_fields_and_is_copied_with_changes() -> None:
    """Readers of a declaration find fields with their options; replace makes the changed copy."""
    assert ["size"] == [field.name for field in fields(Inner)]
    assert "A number." == fields(Inner)[0].metadata.doc
    assert Config(name="b") == replace(Config(name="a"), name="b")
