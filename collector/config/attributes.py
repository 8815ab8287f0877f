"""The keys that change attributes, and those that choose whose: of `attributes` and `resource`.

Source: OpenTelemetry Collector contrib, internal/coreinternal/attraction and internal/filter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from collector.config.fields import option, section
from collector.config.headers import is_header_name
from collector.ids import Signal
from collector.lean import Any
from collector.native import attributes as native
from collector.native import pattern as patterns
from collector.native.attributes import ConvertedType, Verb
from collector.native.library import lib

_SETTERS = (Verb.INSERT, Verb.UPDATE, Verb.UPSERT)
_METADATA = "metadata."
_AUTH = "auth."
_CLIENT_ADDRESS = "client.address"

_STRICT = "strict"
_REGEXP = "regexp"
_EXPRESSION = "expr"
_MATCH_TYPES = (_REGEXP, _STRICT)
_SPAN_KINDS = (
    "SPAN_KIND_CLIENT",
    "SPAN_KIND_CONSUMER",
    "SPAN_KIND_INTERNAL",
    "SPAN_KIND_PRODUCER",
    "SPAN_KIND_SERVER",
)

_Problems = Iterator[tuple[str, str]]


@section
class Action:
    """Keys of one action."""

    key: str = option("", doc="The attribute to act on.")
    action: str = option(
        "",
        doc="`insert` where the key is absent, `update` where it is there, `upsert`, `delete`, `hash` (SHA-256 in "
        "hex), `extract` groups of `pattern` as attributes, `convert` to `converted_type`. Case does not count.",
        values=tuple(Verb),
    )
    value: object = option(None, doc="What `insert`, `update` and `upsert` write, of any type.")
    default_value: object = option(None, doc="What they write where the attribute or header is absent.")
    from_attribute: str = option("", doc="The attribute whose value they write.")
    from_context: str = option(
        "",
        doc="`metadata.` and the header of the request whose value they write, several joined with `;`. It needs "
        "`include_metadata` of the receiver. `client.address` is not supported yet; there is no `auth.` yet.",
    )
    pattern: str = option(
        "",
        doc="Regular expression: to be found in the keys that `delete` and `hash` are for beside `key`, or in the "
        "value from which `extract` takes its groups, each of which has the name of an attribute. A search that "
        "would take too long is given up and counted: the key is deleted or hashed then, and nothing extracted.",
    )
    converted_type: str = option(
        "", doc="`convert`: `string`, `int` or `double`.", values=tuple(ConvertedType)
    )

    @property
    def metadata_name(self) -> str:
        """The header that the action reads, in lower case; empty where there can be none."""
        name = self.from_context.removeprefix(_METADATA).lower()
        is_name = is_header_name(name.removeprefix(":")) and len(name) <= lib.SS_METADATA_NAME_MAX
        return name if is_name and not self.from_context.startswith(_AUTH) else ""


@section
class Attribute:
    """An attribute that must be there."""

    key: str = option("", doc="Name of the attribute.")
    value: object = option(
        None, doc="Its value, or with `regexp` a regular expression; without it any will do."
    )


@section
class Library:
    """An instrumentation scope."""

    name: str = option("", doc="Its name.")
    version: str | None = option(None, doc="Its version; without it any will do.")


@section
class SeverityNumber:
    """Keys of `log_severity_number`."""

    min: int = option(0, doc="The least severity.", minimum=-(2**31), maximum=2**31 - 1)
    match_undefined: bool = option(False, doc="Whether records without a severity match.")


@section
class RegexpCache:
    """Keys of `regexp`: none has an effect, since nothing is lost without them."""

    cacheenabled: bool = option(False, doc="No effect.")
    cachemaxnumentries: int = option(0, doc="No effect.")


@section
class MatchProperties:
    """Keys of `include` and `exclude`: all that are given must hold, of each list one entry; of attributes all."""

    match_type: str = option(
        "",
        doc="`strict`, or `regexp` for regular expressions to be found, in time that grows with the text alone. The "
        "rare search that would take longer is given up and counted; the item then counts as included and not as "
        "excluded where an action deletes or hashes.",
        values=("", *_MATCH_TYPES),
    )
    regexp: RegexpCache | None = option(None, doc="Accepted, without effect.")
    services: tuple[str, ...] = option((), doc="Spans: `service.name` of the resource.")
    span_names: tuple[str, ...] = option((), doc="Spans: the name.")
    span_kinds: tuple[str, ...] = option((), doc="Spans: the kind, such as `SPAN_KIND_SERVER`.")
    log_bodies: tuple[str, ...] = option((), doc="Logs: the body as text.")
    log_severity_texts: tuple[str, ...] = option((), doc="Logs: the text of the severity.")
    log_severity_number: SeverityNumber | None = option(None, doc="Logs: the number of the severity.")
    metric_names: tuple[str, ...] = option((), doc="Metrics: the name.")
    attributes: tuple[Attribute, ...] = option((), doc="Spans and logs: attributes, all of them.")
    resources: tuple[Attribute, ...] = option(
        (), doc="Attributes of the resource, all of them; of metrics too, where the Collector ignores them."
    )
    libraries: tuple[Library, ...] = option((), doc="Spans and logs: instrumentation scopes, all of them.")


# ------------------------------------------------------------------------------------------------ problems


def action_problems(actions: Sequence[Action], field: str) -> _Problems:
    """Yield what the Collector would refuse of the actions under field, in its words, and what is not supported yet."""
    for index, action in enumerate(actions):
        message = _action_problem(action, index)
        if message:
            yield f"{field}::{index}", message
        elif action.from_context == _CLIENT_ADDRESS:
            yield f"{field}::{index}::from_context", f'"{_CLIENT_ADDRESS}" is not supported yet'
        else:
            for key, value in (("value", action.value), ("default_value", action.default_value)):
                if _depth(value) > lib.SS_VALUE_DEPTH_MAX:
                    yield f"{field}::{index}::{key}", _TOO_DEEP


def actions_without_effect(actions: Sequence[Action], field: str) -> _Problems:
    """Yield the keys of the actions under field that change nothing, which the Collector accepts too."""
    for index, action in enumerate(actions):
        if action.default_value is not None and (
            action.value is not None or action.action.lower() not in _SETTERS
        ):
            yield (
                f"{field}::{index}::default_value",
                "has no effect: it stands in for an absent attribute or header",
            )
        if action.from_context and action.action.lower() not in _SETTERS:
            yield f"{field}::{index}::from_context", f"has no effect: {action.action} writes no value"


_TOO_DEEP = f"lists and maps are nested more than {lib.SS_VALUE_DEPTH_MAX} deep"


def _depth(value: Any) -> int:
    if isinstance(value, dict):
        value = list(value.values())
    return 1 + max(map(_depth, value), default=0) if isinstance(value, list) else 0


def _action_problem(action: Action, index: int) -> str:
    verb = action.action.lower()
    if verb in (Verb.DELETE, Verb.HASH):
        if not action.key and not action.pattern:
            return (
                'error creating AttrProc due to missing required field (at least one of "key" and "pattern" have to '
                f"be used) at the {index}-th action"
            )
    elif not action.key:
        return f'error creating AttrProc due to missing required field "key" at the {index}-th action'
    start = f'error with key "{action.key}" ({index}-th action): error creating AttrProc'
    if verb not in tuple(Verb):
        return f'{start} due to unsupported action "{verb}"'
    problem = _PROBLEMS[Verb(verb)](action)
    return f"{start}{problem}" if problem else ""


def _n_sources(action: Action) -> int:
    return (action.value is not None) + bool(action.from_attribute) + bool(action.from_context)


def _unused(action: Action, fields: str, *, several: bool = False) -> str:
    these = "These" if several else "This"
    return f'. Action "{action.action.lower()}" does not use {fields}. {these} must not be specified'


def _setter_problem(action: Action) -> str:
    if not _n_sources(action) and action.default_value is None:
        return (
            '. Either field "value", "from_attribute", "from_context", or "default_value" must be specified'
        )
    if _n_sources(action) > 1:
        return " due to multiple value sources being set"
    if action.pattern:
        return _unused(action, 'the "pattern" field')
    if action.converted_type:
        return _unused(action, 'the "converted_type" field')
    return ""


def _key_problem(action: Action) -> str:
    if action.value is not None or action.from_attribute:
        return _unused(action, '"value" or "from_attribute" field', several=True)
    problem = _pattern_problem(action)
    if problem:
        return problem
    return _unused(action, 'the "converted_type" field') if action.converted_type else ""


def _pattern_problem(action: Action) -> str:
    fault = patterns.check(action.pattern).fault
    return f'. Field "pattern" has invalid pattern: "{action.pattern}": {fault}' if fault else ""


def _extract_problem(action: Action) -> str:
    if _n_sources(action):
        return _unused(action, "a value source field", several=True)
    if not action.pattern:
        return f' due to missing required field "pattern" for action "{Verb.EXTRACT}"'
    if action.converted_type:
        return _unused(action, 'the "converted_type" field')
    found = patterns.check(action.pattern)
    if found.fault:
        return _pattern_problem(action)
    if not found.n_groups:
        return '. Field "pattern" contains no named matcher groups'
    if found.n_named < found.n_groups:
        return '. Field "pattern" contains at least one unnamed matcher group'
    return ""


def _convert_problem(action: Action) -> str:
    if _n_sources(action) or action.pattern:
        return _unused(action, 'value sources or "pattern" field', several=True)
    if not action.converted_type:
        return f' due to missing required field "converted_type" for action "{Verb.CONVERT}"'
    if action.converted_type not in tuple(ConvertedType):
        return f' due to invalid value "{action.converted_type}" in field "converted_type" for action "{Verb.CONVERT}"'
    return ""


_PROBLEMS = {
    **dict.fromkeys(_SETTERS, _setter_problem),
    **dict.fromkeys((Verb.DELETE, Verb.HASH), _key_problem),
    Verb.EXTRACT: _extract_problem,
    Verb.CONVERT: _convert_problem,
}

_NOT_OF_SPANS = ("log_bodies", "log_severity_texts", "log_severity_number", "metric_names")
_OF_SPANS = ("services", "span_names", "attributes", "libraries", "resources", "span_kinds")
_NOT_OF_LOGS = ("span_names", "services", "span_kinds", "metric_names")
_OF_LOGS = (
    "attributes",
    "libraries",
    "resources",
    "log_bodies",
    "log_severity_texts",
    "log_severity_number",
)
_NOT_OF_METRICS = (
    "log_bodies",
    "log_severity_texts",
    "span_names",
    "services",
    "span_kinds",
    "attributes",
    "libraries",
    "log_severity_number",
)
_OF_METRICS = ("metric_names", "resources")

# What the Collector calls the filters of a list.
_FILTERS = {
    "services": "service name",
    "span_names": "span name",
    "span_kinds": "span kind",
    "log_bodies": "log record body",
    "log_severity_texts": "log record severity text",
    "attributes": "attribute",
    "resources": "resource",
}


def match_problems(properties: MatchProperties | None, signal: Signal) -> _Problems:
    """Yield what the Collector would refuse of include or exclude in a pipeline of signal, in its words."""
    if properties is None:
        return
    problem = _misplaced(properties, signal)
    if problem:
        yield "", problem
    elif signal is Signal.METRICS:
        if properties.match_type == _EXPRESSION:
            yield "match_type", f'"{_EXPRESSION}" is not supported, and would match all metrics here'
            return
        for field, message in _texts_problems(properties, properties.metric_names):
            yield f"metric_names{field}", message
        for field, message in _conditions_problems(properties, properties.resources):
            yield f"resources{field}", message
    else:
        yield from _filter_problems(properties)


def _given(properties: MatchProperties, fields: Iterable[str]) -> list[str]:
    return [field for field in fields if getattr(properties, field) not in ((), None)]


def _misplaced(properties: MatchProperties, signal: Signal) -> str:
    if signal is Signal.TRACES:
        for field in _given(properties, _NOT_OF_SPANS):
            return f"{field} should not be specified for trace spans"
        if not _given(properties, _OF_SPANS):
            return 'at least one of "attributes", "libraries",  or "resources" field must be specified'
        if properties.match_type == _STRICT and not set(properties.span_kinds) <= set(_SPAN_KINDS):
            return (
                "span_kinds string must match one of the standard span kinds when match_type=strict: "
                f"[{' '.join(_SPAN_KINDS)}]"
            )
    elif signal is Signal.LOGS:
        if _given(properties, _NOT_OF_LOGS):
            return "services, span_names, span_kinds and metric_names are not valid for log records"
        if not _given(properties, _OF_LOGS):
            return (
                'at least one of "attributes", "libraries", "span_kinds", "resources", "log_bodies", '
                '"log_severity_texts" or "log_severity_number" field must be specified'
            )
    else:
        if _given(properties, _NOT_OF_METRICS):
            return (
                '"span_names", "span_kinds", "log_bodies", "log_severity_texts", "log_severity_number", "services", '
                '"attributes" and "libraries" are not valid for metrics'
            )
        if not _given(properties, _OF_METRICS):
            return 'at least one of "metric_names" or "resources" field must be specified'
    return ""


def _filter_problems(properties: MatchProperties) -> _Problems:
    for index, library in enumerate(properties.libraries):
        for name, text in (("name", library.name), ("version", library.version)):
            for _, message in _texts_problems(properties, () if text is None else (text,)):
                yield f"libraries::{index}::{name}", f"error creating library {name} filters: {message}"
    for field, words in _FILTERS.items():
        check = _conditions_problems if field in ("attributes", "resources") else _texts_problems
        for below, message in check(properties, getattr(properties, field)):
            yield f"{field}{below}", f"error creating {words} filters: {message}"


def _texts_problems(properties: MatchProperties, texts: Sequence[str]) -> _Problems:
    if texts and properties.match_type not in _MATCH_TYPES:
        yield (
            "",
            f"unrecognized match_type: '{properties.match_type}', valid types are: [{' '.join(_MATCH_TYPES)}]",
        )
    elif properties.match_type == _REGEXP:
        for index, text in enumerate(texts):
            fault = patterns.check(text).fault
            if fault:
                yield f"::{index}", f"error parsing regexp {text!r}: {fault}"
        cache = properties.regexp
        if texts and cache is not None and cache.cacheenabled and cache.cachemaxnumentries < 0:
            yield "", "must provide a positive size"


def _conditions_problems(properties: MatchProperties, conditions: Sequence[Attribute]) -> _Problems:
    for index, condition in enumerate(conditions):
        if not condition.key:
            yield f"::{index}", "can't have empty key in the list of attributes"
        elif condition.value is None:
            continue
        elif properties.match_type == _REGEXP and not isinstance(condition.value, str):
            yield (
                f"::{index}",
                f'match_type=regexp for "{condition.key}" only supports Str, but found {_type_of(condition.value)}',
            )
        elif _depth(condition.value) > lib.SS_VALUE_DEPTH_MAX:
            yield f"::{index}::value", _TOO_DEEP
        else:
            texts = (str(condition.value),) if properties.match_type == _REGEXP else ("",)
            for _, message in _texts_problems(properties, texts):
                yield f"::{index}", message


def _type_of(value: Any) -> str:
    for type, word in ((bool, "Bool"), (int, "Int"), (float, "Double"), (dict, "Map")):
        if isinstance(value, type):
            return word
    return "Slice"


# ------------------------------------------------------------------------------------------------ what is run


def native_actions(actions: Sequence[Action]) -> list[native.Action]:
    """Return the actions, which have no problems, as the op takes them."""
    return [
        native.Action(
            verb=Verb(action.action.lower()),
            key=action.key,
            pattern=action.pattern,
            value=_wrapped(action.value),
            from_metadata=action.metadata_name,
            from_attribute=action.from_attribute,
            otherwise=_wrapped(action.default_value),
            converted_type=ConvertedType(action.converted_type or ConvertedType.STRING),
        )
        for action in actions
    ]


def metadata_names(actions: Sequence[Action]) -> tuple[str, ...]:
    """Return the headers that the actions read."""
    return tuple(sorted({action.metadata_name for action in actions if action.metadata_name}))


def native_match(properties: MatchProperties | None) -> native.Match | None:
    """Return include or exclude, which has no problems, as the op takes it; None: nothing is asked."""
    if properties is None:
        return None
    severity = properties.log_severity_number
    return native.Match(
        is_regexp=properties.match_type == _REGEXP,
        services=_without_copies(properties.services),
        names=_without_copies(properties.span_names or properties.metric_names),
        span_kinds=_without_copies(properties.span_kinds),
        log_bodies=_without_copies(properties.log_bodies),
        log_severity_texts=_without_copies(properties.log_severity_texts),
        min_severity_number=severity.min if severity else None,
        matches_undefined_severity=severity.match_undefined if severity else False,
        libraries=[native.Library(library.name, library.version) for library in properties.libraries],
        resources=_conditions(properties.resources),
        attributes=_conditions(properties.attributes),
    )


def _without_copies(texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))


def _conditions(attributes: Sequence[Attribute]) -> list[native.Condition]:
    return [native.Condition(attribute.key, _wrapped(attribute.value)) for attribute in attributes]


def _wrapped(value: Any) -> Any:
    """Return value with ints of 64 bits and no sign as the Collector takes them: as those with the same bits."""
    if isinstance(value, dict):
        return {key: _wrapped(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_wrapped(each) for each in value]
    return value - 2**64 if type(value) is int and value >= 2**63 else value
