"""What `service::telemetry::resource` may hold; imported only by configurations that have it.

Source: OpenTelemetry Collector, "Internal telemetry": the declarative form, a list of attributes, and the older one, a
map of them in which null removes a default attribute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from collector.config.decode import decode, keys_of
from collector.config.fields import option, section, unserved
from collector.errors import ConfigError, Problem
from collector.lean import Any

_PATH = "service::telemetry::resource"


@section
class Attribute:
    """One attribute of the collector."""

    name: str = option(doc="Its key.")
    value: object = option(None, doc="Its value.")


@section
class Resource:
    """The declarative form."""

    attributes: tuple[Attribute, ...] = option((), doc="Attributes of the collector beside the default ones.")
    attributes_list: str | None = option(None, doc="Refused, as by the Collector.")
    detectors: Any = unserved("write what they would find into attributes")
    schema_url: str = option("", doc="Accepted for the Collector's sake: a page of metrics cannot say it.")

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield what the Collector refuses too."""
        if self.attributes_list is not None:
            yield (
                "",
                "resource::attributes_list is not currently supported, please use resource::attributes",
            )


def decode_resource(values: Mapping[str, Any], locate: Callable[[str], str]) -> dict[str, Any]:
    """Return the attributes that values name; None stands for a default one that is to go.

    Raises:
        ConfigError: with all problems.
    """
    keys = keys_of(Resource)
    declared = {key: value for key, value in values.items() if key in keys}
    legacy = {key: value for key, value in values.items() if key not in keys}
    problems = [
        Problem(f"{_PATH}::{key}", f'legacy resource attribute "{key}" must be string or null{locate(_PATH)}')
        for key, value in legacy.items()
        if not isinstance(value, str | None)
    ]
    attributes: dict[str, Any] = {}
    try:
        resource = decode(Resource, declared, _PATH, locate)
        attributes = {attribute.name: attribute.value for attribute in resource.attributes}
    except ConfigError as error:
        problems += error.problems
    if attributes and legacy:
        message = "resource::attributes cannot be used together with legacy inline resource attributes"
        problems.append(Problem(_PATH, message + locate(_PATH)))
    if problems:
        raise ConfigError(problems)
    return {**attributes, **legacy}
