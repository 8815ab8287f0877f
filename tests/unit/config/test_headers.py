"""Which headers can be sent."""

from __future__ import annotations

import pytest

from collector.config.fields import Secret
from collector.config.headers import header_problems


@pytest.mark.parametrize(
    ("name", "value"), [("X-Api-Key", ""), ("x_tenant.1", "blue\tgr\N{LATIN SMALL LETTER E WITH ACUTE}y")]
)
def test_good_headers_are_no_problem(name: str, value: str) -> None:
    """Any token is a name, any line of text a value."""
    assert not list(header_problems({name: Secret(value)}))


@pytest.mark.parametrize("name", ["", "two words", ":path", "n\N{LATIN SMALL LETTER E WITH ACUTE}"])
def test_bad_name_is_shown(name: str) -> None:
    """It is no secret."""
    assert list(header_problems({name: Secret("v")})) == [
        ("headers", f"expected the name of a header, got {name!r}")
    ]


@pytest.mark.parametrize("value", ["secret\n", "secret\r\nX: y", "secret\0", "secret\x7f"])
def test_bad_value_is_not_shown(value: str) -> None:
    """The message names the header alone."""
    assert list(header_problems({"Authorization": Secret(value)})) == [
        ("headers::Authorization", "expected one line of text without control characters")
    ]
