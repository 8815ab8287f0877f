"""OTLP/JSON as clients write it and as they should not: each body goes to both as it stands."""

from __future__ import annotations

from collections.abc import Iterator

TRACE_ID, SPAN_ID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
_IDS = f'"traceId":"{TRACE_ID}","spanId":"{SPAN_ID}"'


def span(fields: str) -> str:
    """Return traces with one span of these fields."""
    return f'{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{{{fields}}}]}}]}}]}}'


def with_ids(fields: str) -> str:
    """Return traces with one span that has good ids and these fields."""
    return span(f"{_IDS},{fields}")


def attribute(value: str) -> str:
    """Return traces with one span that has an attribute of this value."""
    return with_ids(f'"attributes":[{{"key":"k","value":{value}}}]')


def point(fields: str, kind: str = "gauge") -> str:
    """Return metrics with one point of these fields."""
    metric = f'{{"name":"m","{kind}":{{"dataPoints":[{{{fields}}}]}}}}'
    return f'{{"resourceMetrics":[{{"scopeMetrics":[{{"metrics":[{metric}]}}]}}]}}'


def record(fields: str) -> str:
    """Return logs with one record of these fields."""
    return f'{{"resourceLogs":[{{"scopeLogs":[{{"logRecords":[{{{fields}}}]}}]}}]}}'


_HEXES = [
    *(
        TRACE_ID,
        TRACE_ID.upper(),
        "",
        "0" * 32,
        TRACE_ID[1:],
        TRACE_ID + "00",
        "g" * 32,
        "S/kvNXezTaajzpKdDg5HNg==",
    ),
    *(TRACE_ID[:16], " " * 32, TRACE_ID[:30] + "\\u0061a"),
]
_NUMBERS = [
    *("0", "1", "-1", "1.0", "1.5", "1e3", "1E3", "1e-3", '"1"', '"-1"', '"1.0"', '"1e3"', '""', '" 1"', '"1 "', '"x"'),
    *("01", "+1", "-0", ".5", "1.", "0x10", '"0x10"', '"+1"', '"01"', "true", "null", "[]", "{}", '"1_000"'),
    *("4294967295", "4294967296", "2147483648", "9223372036854775807", "9223372036854775808", "18446744073709551615"),
    *("18446744073709551616", '"18446744073709551615"', '"18446744073709551616"', '"-9223372036854775808"'),
    *("-9223372036854775808", "-9223372036854775809", "1e400", "NaN", '"NaN"', '"Infinity"', '"-Infinity"', '"Inf"'),
    *('"inf"', '"-inf"', '"+Inf"', '"nan"', "Infinity", "1e19", "1.8446744073709552e19", "123456789.0", '"1e400"'),
]  # fmt: skip
_BOOLS = ["true", "false", '"true"', '"false"', "1", "0", "null", '""', '"True"', "[]"]
_STRINGS = [
    *('"x"', '""', "null", "1", "true", "[]", "{}", '"\\u00e9"', '"\\ud83d\\ude00"', '"\\ud800"', '"\\u0000"', '"\\x"'),
    *('"\\u12"', '"a\\/b"', '"\\n\\t\\b\\f\\r\\"\\\\"', '"a\tb"', '"a\nb"', '"\u00e9\u4e16\U0001f600"', "'x'", '"x'),
]  # fmt: skip
_VALUES = [
    *('{"stringValue":"x"}', '{"string_value":"x"}', '{"stringValue":""}', '{"boolValue":true}'),
    *('{"bool_value":false}', '{"intValue":"5"}', '{"int_value":5}', '{"intValue":-5}', '{"doubleValue":1.5}'),
    *('{"double_value":"NaN"}', '{"doubleValue":"-Infinity"}'),
    *('{"bytesValue":"AQL/"}', '{"bytes_value":"AQL/"}', '{"bytesValue":"AQL_"}', '{"bytesValue":"AQ=="}'),
    *('{"bytesValue":"AQ"}', '{"bytesValue":""}', '{"bytesValue":"!"}', '{"bytesValue":"A\\nQ=="}'),
    *('{"arrayValue":{"values":[{"intValue":1},{"stringValue":"x"}]}}', '{"arrayValue":{}}', '{"array_value":{}}'),
    *('{"arrayValue":{"values":null}}', '{"arrayValue":{"values":[]}}', '{"arrayValue":{"values":[{}]}}'),
    *('{"kvlistValue":{"values":[{"key":"a","value":{"intValue":1}}]}}', '{"kvlist_value":{}}', '{"kvlistValue":{}}'),
    *('{"arrayValue":null}', '{"kvlistValue":null}', '{"stringValue":null}', '{"intValue":null}', "{}", "null", "1"),
    *('{"unknownValue":1}', '{"stringValue":"a","intValue":1}', '{"intValue":1,"stringValue":"a"}', '"x"', "[]"),
]  # fmt: skip
_KINDS = [
    "0",
    "2",
    "5",
    "6",
    "-1",
    '"2"',
    '"SPAN_KIND_SERVER"',
    '"SERVER"',
    '"span_kind_server"',
    '""',
    "null",
    "1.0",
]
_DOCUMENTS = [
    *("", "{}", "[]", "null", "1", '"x"', "true", " {} ", "{}{}", "{} x", "{", "}", "\ufeff{}", "{'a':1}", "{a:1}"),
    *('{"a":1,}', '{"resourceSpans":[]}', '{"resourceSpans":null}', '{"resourceSpans":{}}', '{"resourceSpans":[null]}'),
    *('{"resourceSpans":[{}]}', '{"resourceSpans":[[]]}', '{"resourceSpans":[{"scopeSpans":null}]}', "/**/{}", "{,}"),
    *('{"resourceSpans":[{"scopeSpans":[{}]}]}', '{"resourceSpans":[{"scopeSpans":[{"spans":[{}]}]}]}', "\t\r\n{}"),
    *('{"resourceSpans":[{"scopeSpans":[{"spans":[null]}]}]}', '{"resourceSpans":[{"scopeSpans":[{"spans":[1]}]}]}'),
    *('{"resourceSpans":[{"scopeSpans":[{"spans":null}]}]}', '{"resource_spans":[{"scope_spans":[{"spans":[{}]}]}]}'),
    *('{"ResourceSpans":[{}]}', '{"resourcespans":[{}]}', '{"unknown":{"deep":[1,{"a":null}],"s":"\\u00e9"}}'),
    *('{"resourceSpans":[{"schemaUrl":"u","scopeSpans":[{"schema_url":"v","spans":[{}]}]}]}', '{"a":1 "b":2}', '{"a"}'),
]  # fmt: skip


def traces() -> Iterator[tuple[str, str]]:
    """Yield (name, body) for /v1/traces."""
    for text in _DOCUMENTS:
        yield f"document {text!r}", text
    for text in _HEXES:
        yield f"traceId {text}", span(f'"traceId":"{text}"')
        yield f"trace_id {text}", span(f'"trace_id":"{text}"')
    for text in (SPAN_ID, SPAN_ID.upper(), "", SPAN_ID[1:], SPAN_ID + "0", "x" * 16, SPAN_ID * 2, "0" * 16):
        yield f"spanId {text}", span(f'"spanId":"{text}"')
        yield f"parentSpanId {text}", span(f'"parentSpanId":"{text}"')
    for text in ("null", "1", "[]"):
        yield f"traceId {text}", span(f'"traceId":{text}')
    for text in _NUMBERS:
        yield f"startTimeUnixNano {text}", with_ids(f'"startTimeUnixNano":{text}')
        yield f"flags {text}", with_ids(f'"flags":{text}')
        yield f"intValue {text}", attribute(f'{{"intValue":{text}}}')
        yield f"doubleValue {text}", attribute(f'{{"doubleValue":{text}}}')
    for text in _BOOLS:
        yield f"boolValue {text}", attribute(f'{{"boolValue":{text}}}')
    for text in _STRINGS:
        yield f"name {text!r}", with_ids(f'"name":{text}')
        yield f"stringValue {text!r}", attribute(f'{{"stringValue":{text}}}')
    for text in _VALUES:
        yield f"value {text!r}", attribute(text)
    for text in _KINDS:
        yield f"kind {text}", with_ids(f'"kind":{text}')
    for text in ("0", "1", "2", "3", '"STATUS_CODE_ERROR"', '"ERROR"', '"2"', "null"):
        yield f"status code {text}", with_ids(f'"status":{{"code":{text},"message":"m"}}')
    yield "status null", with_ids('"status":null')
    yield "a key twice", with_ids('"name":"a","name":"b"')
    for key, value in (
        ("name", '"a"'),
        ("traceState", '"a=b"'),
        ("parentSpanId", f'"{SPAN_ID}"'),
        ("status", '{"code":2}'),
        ("events", '[{"name":"a"}]'),
        ("attributes", '[{"key":"k","value":{"stringValue":"a","stringValue":null}}]'),
    ):
        yield f"{key} and {key} null", with_ids(f'"{key}":{value},"{key}":null')
    yield "lists twice", with_ids('"events":[{"name":"a"}],"events":[{"name":"b"}]')
    yield "events", with_ids('"events":[{"timeUnixNano":"5","name":"e","attributes":[{"key":"k"}]},{}]')
    yield "events null", with_ids('"events":null,"links":null,"attributes":null')
    yield "links", with_ids(f'"links":[{{{_IDS},"traceState":"a=b","flags":1}}]')
    yield "links, bad id", with_ids('"links":[{"traceId":"00"}]')
    yield (
        "dropped counts",
        with_ids('"droppedAttributesCount":1,"dropped_events_count":"2","droppedLinksCount":3'),
    )
    yield "attributes without value", with_ids('"attributes":[{"key":"k"},{"value":{"intValue":1}},{}]')
    yield "attribute null", with_ids('"attributes":[null]')
    for depth in (10, 25):  # deeper, what the Collector sends on is beyond what Google's protobuf reads
        nested = '{"arrayValue":{"values":[' * depth + "{}" + "]}}" * depth
        yield f"{depth} arrays in each other", attribute(nested)
    for depth in (10, 100, 20_000):
        yield f"{depth} unknown arrays in each other", '{"u":' + "[" * depth + "]" * depth + "}"


def metrics() -> Iterator[tuple[str, str]]:
    """Yield (name, body) for /v1/metrics."""
    for text in ("1", '"1"', "1.5", '"1.5"', "null", '"x"', "-9223372036854775808", '"-9223372036854775809"'):
        yield f"asInt {text}", point(f'"asInt":{text}')
        yield f"asDouble {text}", point(f'"asDouble":{text}')
    yield "as_int", point('"as_int":"5"')
    yield "both values", point('"asInt":"5","asDouble":1.5')
    yield "no value", point('"timeUnixNano":"5"')
    histogram = (
        '"count":"3","sum":4.5,"bucketCounts":["1",2,"0"],"explicitBounds":[1,"2.5"],"min":1,"max":"3"'
    )
    yield "histogram", point(histogram, "histogram")
    yield "histogram, snake case", point('"bucket_counts":[1],"explicit_bounds":[],"count":1', "histogram")
    buckets = '"positive":{"offset":-2,"bucketCounts":["1",2]},"negative":{"bucketCounts":[]}'
    yield "exponential", point(f'"count":3,"scale":-1,"zeroCount":"1",{buckets}', "exponentialHistogram")
    yield "exponential, snake case", point('"zero_count":1,"zero_threshold":0.5', "exponential_histogram")
    yield "summary", point('"count":1,"sum":2,"quantileValues":[{"quantile":0.5,"value":"1"}]', "summary")
    yield (
        "exemplars",
        point(f'"asInt":1,"exemplars":[{{{_IDS},"asDouble":1,"filteredAttributes":[{{"key":"a"}}]}}]'),
    )
    for text in ("1", "2", "3", '"AGGREGATION_TEMPORALITY_DELTA"', "null"):
        sums = f'{{"aggregationTemporality":{text},"isMonotonic":true,"dataPoints":[{{"asInt":1}}]}}'
        yield (
            f"temporality {text}",
            f'{{"resourceMetrics":[{{"scopeMetrics":[{{"metrics":[{{"sum":{sums}}}]}}]}}]}}',
        )
    metadata = '{"name":"m","metadata":[{"key":"a"}],"gauge":{"dataPoints":[{}]}}'
    yield "metadata", f'{{"resourceMetrics":[{{"scopeMetrics":[{{"metrics":[{metadata}]}}]}}]}}'
    empty = '{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"m"},{"gauge":null},{"gauge":{}}]}]}]}'
    yield "metrics without points", empty


def logs() -> Iterator[tuple[str, str]]:
    """Yield (name, body) for /v1/logs."""
    for text in ("0", "9", "24", "25", "-1", '"SEVERITY_NUMBER_INFO"', '"INFO"', '"9"', "null"):
        yield f"severityNumber {text}", record(f'"severityNumber":{text}')
    for text in _VALUES:
        yield f"body {text!r}", record(f'"body":{text}')
    yield "ids", record(f'{_IDS},"flags":1,"eventName":"e","droppedAttributesCount":2')
    yield (
        "snake case",
        record(f'"trace_id":"{TRACE_ID}","observed_time_unix_nano":5,"severity_text":"x","event_name":"e"'),
    )
    yield "bad span id", record('"spanId":"00"')
    scope = '{"scope":{"name":"n","attributes":[{"key":"a"}],"droppedAttributesCount":1},"logRecords":[{}]}'
    yield (
        "scope",
        f'{{"resourceLogs":[{{"resource":{{"attributes":[{{"key":"r"}}]}},"scopeLogs":[{scope}]}}]}}',
    )
    entities = '"resource":{"entityRefs":[{"type":"t","idKeys":["a"],"schemaUrl":"u"}]}'
    yield "entity references", f'{{"resourceLogs":[{{{entities},"scopeLogs":[{{"logRecords":[{{}}]}}]}}]}}'
