"""The configurations that are given to both: good, broken, and odd, by kind.

Each is a base that runs, with one more layer over it that holds the oddity; what is about files as such has its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

BASE = """\
receivers:
  otlp:
    protocols:
      grpc: {endpoint: "127.0.0.1:0"}
processors:
  batch:
exporters:
  nop:
service:
  telemetry:
    metrics: {readers: [{pull: {exporter: {prometheus: {host: 127.0.0.1, port: 0}}}}]}
  pipelines:
    traces:
      receivers: [otlp]
      processors: [batch]
      exporters: [nop]
"""


_EXPORTERS = "service/pipelines/traces/exporters"


class Case(NamedTuple):
    """A command line and what it finds.

    Attributes:
        name: `kind: what`.
        arguments: after the command; `FOLDER/` stands for where files are.
        files: by name.
        environ: variables, beside an almost empty environment.
    """

    name: str
    arguments: tuple[str, ...]
    files: Mapping[str, str | bytes]
    environ: Mapping[str, str]


def case(name: str, *more: str, base: str | bytes = BASE, **environ: str) -> Case:
    """Return a case of a base file and further arguments."""
    return Case(name, ("--config=FOLDER/base.yaml", *more), {"base.yaml": base}, environ)


def nest(path: str, value: str) -> str:
    """Return a YAML document in one line that says value at path, in which `~` is a slash within a key."""
    keys = [key.replace("~", "/") for key in path.split("/")]
    return "{" + ": {".join(keys) + ": " + value + "}" * len(keys)


def over(name: str, *layers: tuple[str, str], **environ: str) -> Case:
    """Return a case of the base with layers, each (path with slashes, YAML in flow style), over it.

    Their otlp_http or debug is in use, unless they say what is: the Collector looks at little of others.
    """
    files: dict[str, str | bytes] = {"base.yaml": BASE}
    configured = dict.fromkeys(path.split("/")[1] for path, _ in layers if path.startswith("exporters/"))
    used = [id for id in configured if id in ("otlp_http", "debug")]
    if used and not any(path.startswith(_EXPORTERS) for path, _ in layers):
        layers = (*layers, (_EXPORTERS, f"[{', '.join(used)}]"))
    for number, (path, value) in enumerate(layers):
        files[f"layer{number}.yaml"] = nest(path, value) + "\n"
    return Case(name, tuple(f"--config=FOLDER/{file}" for file in files), files, environ)


VALUES = (
    "null", "~", "", "5", "0", "-1", "4294967296", '"5"', '""', "5.5", "5.0", "1e3", "0x10", "0o17", "017", "1_000",
    "true", '"true"', "yes", "abc", "1s", "1.5h", "300ms", "5m5", "1d", "-1s", "[]", "[1]", "[a, b]", '"a,b"', "{}",
    "{a: 1}", "2024-01-01", ".nan", ".inf", "!!str 5", "!!int 5", '!!int "5"', "9223372036854775808", "1e400",
)  # fmt: skip
"""Every shape that a value may have."""

TYPED = {
    "duration": "processors/batch/timeout",
    "unsigned": "processors/batch/send_batch_size",
    "list": "service/telemetry/logs/error_output_paths",
    "float": "processors/probabilistic_sampler/sampling_percentage",
    "text": "processors/probabilistic_sampler/attribute_source",
    "bool": "processors/probabilistic_sampler/fail_closed",
    "section": "receivers/otlp/protocols/http",
    "protocols": "receivers/otlp/protocols",
    "component": "processors/batch",
    "components": "extensions",
    "pipeline": "service/pipelines/traces",
    "references": "service/pipelines/traces/processors",
    "signed": "exporters/otlp_http/sending_queue/num_consumers",
    "headers": "exporters/otlp_http/headers",
    "secret": "exporters/otlp_http/headers/token",
    "optional": "exporters/otlp_http/sending_queue",
    "endpoint": "exporters/otlp_http/endpoint",
    "enum": "exporters/otlp_http/compression",
    "verbosity": "exporters/debug/verbosity",
    "level": "service/telemetry/logs/level",
    "encoding": "service/telemetry/logs/encoding",
    "output_paths": "service/telemetry/logs/output_paths",
    "log sampling": "service/telemetry/logs/sampling",
    "initial_fields": "service/telemetry/logs/initial_fields",
    "metrics level": "service/telemetry/metrics/level",
    "readers": "service/telemetry/metrics/readers",
    "resource": "service/telemetry/resource",
    "telemetry": "service/telemetry",
    "service": "service",
}
"""A key of each type."""

_HTTP = ("exporters/otlp_http", '{endpoint: "http://127.0.0.1:1"}')


def types() -> Iterator[Case]:
    """Yield every shape of value for a key of every type."""
    for kind, path in TYPED.items():
        for value in VALUES:
            layers = [(path, value)]
            if path.startswith("exporters/otlp_http"):
                layers.insert(0, _HTTP)
            yield over(f"type: {kind} = {value}", *layers)


ENVIRON = (
    "", "5", "0123", "08", "1e3", "0x1F", "1_000", "5.5", "5.0", "true", "yes", "on", "null", "~", "abc", "a: b", "a:b",
    "[a, b]", "[1, 2]", "{a: b}", "2024-01-01", "2024-01-01T00:00:00Z", "1s", '"5"', "'5'", " 5 ", "5\n", "a\nb", "# x",
    "a # x", "*a", "&a b", "@a", "%a", "`a", "[a", "{a", '"a', "!!str 5", "- a\n- b", "a: 1\nb: 2", "$", "$$", "$x",
    "${env:OTHER}", "${OTHER}", "${env:MISSING}", "$${env:OTHER}", "\u00e9", "a\tb", "a b", ".inf", "-", "?", ":", "<<",
)  # fmt: skip
"""Every shape that a variable may have."""

EXPANDED = {
    "text": "processors/probabilistic_sampler/attribute_source",
    "secret": "exporters/otlp_http/headers/token",
    "unsigned": "processors/batch/send_batch_size",
    "duration": "processors/batch/timeout",
    "bool": "processors/probabilistic_sampler/fail_closed",
    "list": "service/telemetry/logs/error_output_paths",
    "headers": "exporters/otlp_http/headers",
    "component": "processors/batch",
}


def variables() -> Iterator[Case]:
    """Yield every shape of variable for a key of every type, alone and within a text."""
    for kind, path in EXPANDED.items():
        layers = [_HTTP] if path.startswith("exporters") else []
        for value in ENVIRON:
            yield over(f"env: {kind} = {value!r}", *layers, (path, "'${env:X}'"), X=value, OTHER="7")
    for value in ENVIRON:
        yield over(
            f"env: in text = {value!r}",
            _HTTP,
            ("exporters/otlp_http/headers/token", "'a${env:X}b'"),
            X=value,
            OTHER="7",
        )


REFERENCES = (
    "${X}", "${env:X}", "${env:X:-d}", "${X:-d}", "${env:MISSING}", "${MISSING}", "${env:MISSING:-d}",
    "${env:MISSING:-}", "${env:MISSING:-5}", "${env:MISSING:-${env:X}}", "${env:EMPTY}", "${env:EMPTY:-d}",
    "a${env:MISSING}b", "a${env:EMPTY}b", "${env:X}${env:Y}", "${env:X}:${env:Y}", "${env:${env:NAME}}", "${${env:NAME}}",
    "${env:${NAME}}", "$X", "$", "$$", "$$$", "$$$$", "$${X}", "$${env:X}", "$$${env:X}", "$$$${env:X}",
    "$$$$${env:X}", "a$$b", "a$b", "$a", "${", "${}", "}", "${env:}", "${env:X", "env:X}", "{env:X}", "$ {env:X}",
    "${ env:X }", "${env: X}", "${env:1X}", "${env:X-Y}", "${env:X.Y}", "${env:X Y}", "${1}", "${X-Y}", "${a:b}",
    "${nope:x}", "${e:X}", "${ENV:X}", "${env:X}}", "${{env:X}}", "${env:X}${", "${env:LOOP}", "${env:SECOND}",
    "${env:DEEP}", "$${env:X}:${env:Y}", "${env:X}:$${env:Y}", "$${env:X}:$${env:Y}", "${yaml:5}", "${yaml:a}",
    "${yaml:[a, b]}", "${yaml:'5'}", "${yaml:}", "${yaml:{a: b}}", "${file:FOLDER/value.txt}", "${file:FOLDER/none.txt}",
    "${file:FOLDER/lines.txt}", "${file:FOLDER/map.yaml}", "x${file:FOLDER/value.txt}y", "x${file:FOLDER/lines.txt}y",
    "${file:}", "${file:FOLDER}", "${env:DOLLAR}", "${env:DOLLARS}", "x${env:DOLLARS}", "${env:ESCAPED}",
    "${env:X}$${env:X}${env:X}", "${env:MULTI}", "x${env:MULTI}", "${env:BRACES}", "${env:X:-a}b}",
    "${env:MISSING:-a}b}", "${env:MISSING:-$${X}}", "${env:MISSING:-$$}", "${env:MISSING:-a:-b}", "${env:MISSING:a}",
    "${env:MISSING-a}", "${env:MISSING:=a}", "${env:MISSING:+a}", "${env:MISSING:?a}", "${env:MISSING:- a }",
    "${env:MISSING:-[a]}", "${env:MISSING:-null}", "${env:MISSING:-\"q\"}", "\u00e9${env:X}\u00e9", "${env:\u00c9}",
    "%{env:X}", "#{env:X}", "${env:X}\n${env:Y}", "${http://127.0.0.1:1/x}", "${https://127.0.0.1:1/x}", "${env:X:}",
    "${:X}", "${:}", "${env::X}", "${env:X:-${env:MISSING:-${env:Y}}}", "${env:X:-${nope:x}}", "${yaml:${env:Y}}",
    "${yaml:${env:X}}", "${yaml:\"${env:Y}\"}",
)  # fmt: skip
"""What may stand in a value."""

_REFERRED = {
    "X": "value", "Y": "3044", "NAME": "X", "EMPTY": "", "LOOP": "${env:LOOP}", "SECOND": "${env:X}",
    "DEEP": "${env:SECOND}", "DOLLAR": "a$b", "DOLLARS": "a$$b", "ESCAPED": "$${env:X}", "MULTI": "a\nb\n",
    "BRACES": "{a: '}'}",
}  # fmt: skip


def references() -> Iterator[Case]:
    """Yield every form of reference, in a text and as a number."""
    files = {"value.txt": "from file\n", "lines.txt": "a: 1\nb: 2\n", "map.yaml": "{token: abc}\n"}
    for path in ("exporters/otlp_http/headers/token", "processors/batch/send_batch_size"):
        for text in REFERENCES:
            quoted = "'" + text.replace("'", "''").replace("\n", "\n\n") + "'"
            made = over(
                f"reference: {path.rpartition('/')[2]} = {text}".replace("\n", r"\n"),
                _HTTP,
                (path, quoted),
                **_REFERRED,
            )
            yield made._replace(files={**made.files, **files})


SETS = (
    "processors.batch.timeout=2s", "processors.batch.timeout=abc", "processors.batch.timeout", "processors.batch=",
    "processors.batch={}", "processors.batch={timeout: 2s}", "processors.batch.timeout =2s", " processors.batch.timeout=2s",
    "processors.batch.timeout= 2s", "processors.batch.timeout=2s ", "=2s", "=", "", "a", "a=b", "processors=",
    "processors.batch.metadata_keys=[a, b]", "processors.batch.metadata_keys=a,b", "processors.batch.metadata_keys=[a",
    "processors.batch/2.timeout=2s", "service.pipelines.traces.processors=[]", "service.pipelines.traces.processors=[batch]",
    "service.pipelines.traces.exporters=[nope]", "processors.batch.send_batch_size=5", "processors.batch.send_batch_size='5'",
    "processors.batch.send_batch_size=\"5\"", "processors::batch::timeout=2s", "processors.batch::timeout=2s",
    "receivers.otlp.protocols.grpc.endpoint=127.0.0.1:0", "receivers.otlp.protocols.grpc.endpoint=localhost",
    "receivers.otlp.protocols.grpc.endpoint=${env:X}", "receivers.otlp.protocols.http=", "receivers.otlp=",
    "exporters.otlp_http.headers.a.b=c", "exporters.otlp_http/a.b.endpoint=http://x", "processors.batch.timeout=2s\n",
    "processors.batch.timeout=2s # x", "processors..timeout=2s", ".processors.batch.timeout=2s", "processors.batch.=2s",
    "processors.batch.timeout=a=b", "exporters.nop.x=1", "service.telemetry.logs.level=debug",
    "service.telemetry.logs.level=loud", "service.extensions=[health_check]", "processors.batch.timeout=null",
    "processors.batch.timeout=!!str 2s", "processors.batch: {timeout=2s}", "processors.batch.timeout=a: b",
)  # fmt: skip


def sets() -> Iterator[Case]:
    """Yield `--set` in all its forms."""
    for text in SETS:
        yield case(f"set: {text!r}", f"--set={text}", X="127.0.0.1:0")
    yield case("set: twice", "--set=processors.batch.timeout=2s", "--set=processors.batch.timeout=3s")
    yield case("set: two words", "--set", "processors.batch.timeout=2s")
    yield Case(
        "set: before the file",
        ("--set=processors.batch.timeout=2s", "--config=FOLDER/base.yaml"),
        {"base.yaml": BASE},
        {},
    )
    yield Case("set: alone", ("--set=processors.batch.timeout=2s",), {}, {})


def providers() -> Iterator[Case]:
    """Yield the ways to name a source."""
    files: dict[str, str | bytes] = {
        "base.yaml": BASE,
        "null.yaml": "",
        "list.yaml": "[a]",
        "text.yaml": "abc",
    }
    for name, arguments in {
        "path": ["--config=FOLDER/base.yaml"],
        "two words": ["--config", "FOLDER/base.yaml"],
        "file scheme": ["--config=file:FOLDER/base.yaml"],
        "file scheme with slashes": ["--config=file://FOLDER/base.yaml"],
        "env scheme": ["--config=env:BASE"],
        "env unset": ["--config=env:MISSING"],
        "env default": ["--config=env:MISSING:-{}"],
        "env name": ["--config=env:1"],
        "yaml scheme": ["--config=FOLDER/base.yaml", "--config=yaml:processors::batch::timeout: 2s"],
        "yaml scheme, nested": [
            "--config=FOLDER/base.yaml",
            "--config=yaml:processors: {batch::timeout: 2s}",
        ],
        "yaml scheme, broken": ["--config=FOLDER/base.yaml", "--config=yaml:a: b: c"],
        "yaml scheme, text": ["--config=FOLDER/base.yaml", "--config=yaml:abc"],
        "yaml scheme, number": ["--config=FOLDER/base.yaml", "--config=yaml:5"],
        "yaml scheme, nothing": ["--config=FOLDER/base.yaml", "--config=yaml:"],
        "unknown scheme": ["--config=s3:bucket"],
        "scheme of one letter": ["--config=x:bucket"],
        "scheme in capitals": ["--config=FILE:FOLDER/base.yaml"],
        "http refused": ["--config=http://127.0.0.1:1/x"],
        "https refused": ["--config=https://127.0.0.1:1/x"],
        "http, no host": ["--config=http:"],
        "missing file": ["--config=FOLDER/none.yaml"],
        "folder": ["--config=FOLDER"],
        "empty": ["--config="],
        "empty file": ["--config=FOLDER/null.yaml"],
        "empty file over it": ["--config=FOLDER/base.yaml", "--config=FOLDER/null.yaml"],
        "list": ["--config=FOLDER/list.yaml"],
        "text": ["--config=FOLDER/text.yaml"],
        "second missing": ["--config=FOLDER/base.yaml", "--config=FOLDER/none.yaml"],
        "twice": ["--config=FOLDER/base.yaml", "--config=FOLDER/base.yaml"],
        "none": [],
        "unknown flag": ["--config=FOLDER/base.yaml", "--nope"],
        "extra word": ["--config=FOLDER/base.yaml", "nope"],
        "no value": ["--config"],
        "no gate": ["--config=FOLDER/base.yaml", "--feature-gates="],
        "unknown gate": ["--config=FOLDER/base.yaml", "--feature-gates=nope"],
        "unknown gate off": ["--config=FOLDER/base.yaml", "--feature-gates=-nope"],
        "gate on": ["--config=FOLDER/base.yaml", "--feature-gates=service.AllowNoPipelines"],
        "gate on, plus": ["--config=FOLDER/base.yaml", "--feature-gates=+service.AllowNoPipelines"],
        "gate off": ["--config=FOLDER/base.yaml", "--feature-gates=-service.AllowNoPipelines"],
        "gates": [
            "--config=FOLDER/base.yaml",
            "--feature-gates=service.AllowNoPipelines,-service.profilesSupport",
        ],
        "stable gate off": [
            "--config=FOLDER/base.yaml",
            "--feature-gates=-pkg.confighttp.PrioritizeNewKeepalive",
        ],
        "stable gate on": [
            "--config=FOLDER/base.yaml",
            "--feature-gates=pkg.confighttp.PrioritizeNewKeepalive",
        ],
    }.items():
        yield Case(f"provider: {name}", tuple(arguments), files, {"BASE": BASE})


DOCUMENTS: dict[str, str | bytes] = {
    "nothing": "",
    "spaces": "   \n\n",
    "comment": "# nothing\n",
    "null": "null\n",
    "empty map": "{}\n",
    "a list": "- a\n",
    "a text": "abc\n",
    "a number": "5\n",
    "tab": "receivers:\n\totlp:\n",
    "tab after space": BASE.replace("  otlp:", "  otlp:\t"),
    "bad indent": BASE.replace("  batch:\n", "  batch:\n   x: 1\n  y: 2\n z: 3\n"),
    "colon": "receivers: otlp: protocols:\n",
    "open bracket": BASE.replace("[nop]", "[nop"),
    "open quote": BASE.replace("[nop]", "['nop]"),
    "duplicate section": BASE + "processors: {}\n",
    "duplicate key": BASE.replace("  batch:\n", "  batch:\n  batch:\n"),
    "duplicate deep": BASE.replace("  batch:\n", "  batch: {timeout: 1s, timeout: 2s}\n"),
    "number key": BASE + "5: x\n",
    "null key": BASE + "~: x\n",
    "list key": BASE + "[a]: x\n",
    "bool key": BASE + "true: x\n",
    "two documents": BASE + "---\n" + BASE,
    "marked document": "---\n" + BASE + "...\n",
    "directive": "%YAML 1.1\n---\n" + BASE,
    "bad directive": "%NOPE\n---\n" + BASE,
    "BOM": b"\xef\xbb\xbf" + BASE.encode(),
    "CRLF": BASE.replace("\n", "\r\n"),
    "CR": BASE.replace("\n", "\r"),
    "no last newline": BASE.rstrip("\n"),
    "UTF-16": BASE.encode("utf-16"),
    "Latin-1": BASE.replace("[nop]", "[nop] # \u00e9").encode("latin-1"),
    "NUL": BASE.replace("[nop]", "[nop] # \0"),
    "control character": BASE.replace("[nop]", "[nop] # \x01"),
    "anchor": BASE.replace("  batch:\n", "  batch: &a {timeout: 1s}\n  batch/2: *a\n"),
    "unknown anchor": BASE.replace("  batch:\n", "  batch: *a\n"),
    "anchor to itself": BASE.replace("  batch:\n", "  batch: &a {timeout: *a}\n"),
    "merge": BASE.replace(
        "  batch:\n", "  batch: &a {timeout: 1s}\n  batch/2: {<<: *a, send_batch_size: 5}\n"
    ),
    "merge of two": BASE.replace(
        "  batch:\n", "  batch: &a {timeout: 1s}\n  batch/1: &b {timeout: 2s}\n  batch/2: {<<: [*a, *b]}\n"
    ),
    "merge of no map": BASE.replace("  batch:\n", "  batch: {<<: 5}\n"),
    "merge, overridden": BASE.replace(
        "  batch:\n", "  batch: &a {timeout: 1s}\n  batch/2: {timeout: 3s, <<: *a}\n"
    ),
    "tagged": BASE.replace("[nop]", "!!seq [nop]"),
    "unknown tag": BASE.replace("[nop]", "!nope [nop]"),
    "binary": BASE.replace("  batch:\n", "  batch: {timeout: !!binary MXM=}\n"),
    "set": BASE.replace("  batch:\n", "  batch: !!set {a}\n"),
    "block text": BASE.replace("  nop:\n", "  nop:\n  otlp_http:\n    endpoint: |\n      http://x\n").replace(
        "[nop]", "[otlp_http]"
    ),
    "folded text": BASE.replace("  nop:\n", "  nop:\n  otlp_http:\n    endpoint: >-\n      http://x\n"),
    "deep": BASE + "x: " + "[" * 20000 + "]" * 20000 + "\n",
    "bomb": "a: &a [x, x, x, x, x, x, x, x, x]\n"
    + "".join(
        f"{b}: &{b} [{', '.join(['*' + a] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    )
    + BASE,
    "huge": BASE.replace("  batch:\n", "  batch:\n" + "".join(f"  batch/{n}:\n" for n in range(3000))),
    "long line": BASE + "# " + "x" * 1_000_000 + "\n",
    "double colon": BASE.replace("  batch:\n", "  batch::timeout: 2s\n"),
    "double colon at top": BASE + "processors::batch::timeout: 2s\n",
    "double colon, three deep": BASE.replace("  batch:\n", "  batch:\n    a::b: 2s\n"),
    "complex key": BASE + "? a\n: b\n",
    "quoted keys": BASE.replace("  batch:", '  "batch":'),
    "flow": "{receivers: {otlp: {protocols: {grpc: }}}, exporters: {nop: }, service: {pipelines: {traces: {receivers: [otlp], exporters: [nop]}}, telemetry: {metrics: {level: none}}}}",
    "JSON": '{"receivers": {"otlp": {"protocols": {"grpc": null}}}, "exporters": {"nop": null},\n"service": {"pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["nop"]}}, "telemetry": {"metrics": {"level": "none"}}}}',
    "unknown section": BASE + "nope: {}\n",
    "unknown null section": BASE + "nope:\n",
    "section in capitals": BASE + "Processors: {}\n",
    "null extensions": BASE + "extensions:\n",
    "no receivers": BASE.replace(
        'receivers:\n  otlp:\n    protocols:\n      grpc: {endpoint: "127.0.0.1:0"}\n', ""
    ),
    "no exporters": BASE.replace("exporters:\n  nop:\n", "", 1),
    "no service": BASE.partition("service:")[0],
    "only service": "service:" + BASE.partition("service:")[2],
}


def documents() -> Iterator[Case]:
    """Yield files that are odd as text."""
    for name, text in DOCUMENTS.items():
        yield case(f"document: {name}", base=text)


IDS = (
    "batch", "batch/2", "batch/", "/2", "/", "batch/a/b", "batch / 2", "' batch '", "'batch /2'", "batch/a b", "batch/a.b",
    "batch/a-b", "batch/\u00e9", "batch/$", "batch/a:b", "'batch/a::b'", "Batch", "BATCH", "1batch", "_batch", "ba-tch",
    "ba.tch", "b\u00e4tch", "''", "' '", '"batch/\\n"', "batch/" + "x" * 1024, "batch/" + "x" * 1025, "b" * 63, "b" * 64,
    '"batch/\\t"', '"batch/\\u200b"', '"batch/\\u00a0"', "batch//", "batch/#", "batch/+", "batch/^", "batch/`", "'batch/|'",
    "batch/~", "batch/=", "'batch/<'", "batch/_", "'batch/%'", "batch/\u20ac", "batch/\U0001f600", "batch/\u0301",
)  # fmt: skip


def ids() -> Iterator[Case]:
    """Yield ids of components, where they are configured, in pipelines, and of pipelines."""
    for id in IDS:
        yield over(f"id: processor {id[:80]}", ("processors", f"{{{id}: }}"))
        yield over(f"id: reference {id[:80]}", ("service/pipelines/traces/processors", f"[{id}]"))
        traces = id.replace("batch", "traces")
        yield over(
            f"id: pipeline {traces[:80]}",
            ("service/pipelines", f"{{{traces}: {{receivers: [otlp], exporters: [nop]}}}}"),
        )
    yield over("id: same after trimming", ("processors", "{'batch/2': , ' batch/2': }"))


def components() -> Iterator[Case]:
    """Yield unknown types and keys of every kind and at every depth, and missing parts."""
    for kind in ("receivers", "processors", "exporters", "connectors", "extensions"):
        for id in (
            "nope",
            "nope/2",
            "jaeger",
            "kafka",
            "tail_sampling",
            "otlp",
            "forward",
            "prometheus",
            "filter",
        ):
            yield over(f"component: {kind} {id}", (kind, f"{{{id}: }}"))
        yield over(f"component: null {kind}", (kind, "null"))
        yield over(f"component: empty {kind}", (kind, "{}"))
    for path in (
        "receivers/otlp/nope", "receivers/otlp/protocols/nope", "receivers/otlp/protocols/grpc/nope",
        "receivers/otlp/protocols/grpc/keepalive/nope", "receivers/otlp/protocols/grpc/keepalive/server_parameters/nope",
        "receivers/otlp/protocols/http/nope", "receivers/otlp/protocols/http/cors/nope", "processors/batch/nope",
        "processors/probabilistic_sampler/nope", "processors/memory_limiter/nope", "processors/metrics_transform/nope",
        "exporters/nop/nope", "exporters/debug/nope", "exporters/otlp_grpc/nope", "exporters/otlp_grpc/tls/nope",
        "exporters/otlp_grpc/sending_queue/nope", "exporters/otlp_grpc/retry_on_failure/nope",
        "exporters/otlp_grpc/keepalive/nope", "exporters/otlp_http/nope", "exporters/otlp_http/tls/nope",
        "exporters/otlp_http/sending_queue/nope", "exporters/otlp_http/compression_params/nope", "connectors/forward/nope",
        "extensions/health_check/nope", "extensions/health_check/response_body/nope", "service/nope",
        "service/telemetry/nope", "service/telemetry/logs/nope", "service/telemetry/logs/sampling/nope",
        "service/telemetry/metrics/nope", "service/telemetry/metrics/address", "service/telemetry/traces/nope",
        "service/pipelines/traces/nope", "service/pipelines/nope", "exporters/otlp_grpc/endpont",
        "receivers/otlp/protocols/http/max_recv_msg_size_mib", "processors/batch/Timeout",
    ):  # fmt: skip
        yield over(f"unknown key: {path}", (path, "x"))
    yield over(
        "unknown key: two in one", ("exporters/otlp_http", '{endpoint: "http://x", nope: 1, other: 2}')
    )
    yield over(
        "unknown key: in two components",
        ("exporters/otlp_http", "{nope: 1}"),
        ("processors/batch/other", "1"),
    )
    yield over(
        "unknown key: and a bad type", ("processors/batch", "{nope: 1, timeout: [], send_batch_size: x}")
    )


def pipelines() -> Iterator[Case]:
    """Yield pipelines that do not fit."""
    whole = "service/pipelines"
    traces = f"{whole}/traces"
    for name, layers in {
        "no pipelines": [(whole, "null")],
        "empty pipelines": [
            ("service", "null"),
            ("service", "{telemetry: {metrics: {level: none}}, pipelines: {}}"),
        ],
        "null pipeline": [(traces, "null")],
        "no receivers": [(f"{traces}/receivers", "[]")],
        "null receivers": [(f"{traces}/receivers", "null")],
        "no exporters": [(f"{traces}/exporters", "[]")],
        "no receivers and no exporters": [(f"{traces}", "{receivers: [], exporters: []}")],
        "references as text": [(f"{traces}/processors", "batch")],
        "missing receiver": [(f"{traces}/receivers", "[nope]")],
        "missing processor": [(f"{traces}/processors", "[nope]")],
        "missing exporter": [(f"{traces}/exporters", "[nope]")],
        "missing extension": [("service/extensions", "[nope]")],
        "missing three": [(f"{traces}", "{receivers: [a], processors: [b], exporters: [c]}")],
        "processor twice": [(f"{traces}/processors", "[batch, batch]")],
        "receiver twice": [(f"{traces}/receivers", "[otlp, otlp]")],
        "exporter twice": [(f"{traces}/exporters", "[nop, nop]")],
        "extension twice": [
            ("extensions", "{health_check: {endpoint: '127.0.0.1:0'}}"),
            ("service/extensions", "[health_check, health_check]"),
        ],
        "receiver as exporter": [(f"{traces}/exporters", "[otlp]")],
        "exporter as processor": [(f"{traces}/processors", "[nop]")],
        "unused processor": [("processors", "{batch/2: }")],
        "unused broken processor": [("processors", "{memory_limiter: }")],
        "unused exporter": [("exporters", "{debug: }")],
        "unused receiver": [("receivers", "{otlp/2: {protocols: {grpc: }}}")],
        "unused connector": [("connectors", "{forward: }")],
        "unused extension": [("extensions", "{health_check: }")],
        "unknown signal": [(f"{whole}/spans", "{receivers: [otlp], exporters: [nop]}")],
        "profiles": [(f"{whole}/profiles", "{receivers: [otlp], exporters: [nop]}")],
        "two of a signal": [(f"{whole}/traces~2", "{receivers: [otlp], exporters: [nop]}")],
        "sampler for metrics": [
            ("processors", "{probabilistic_sampler: {sampling_percentage: 5}}"),
            (
                f"{whole}/metrics",
                "{receivers: [otlp], processors: [probabilistic_sampler], exporters: [nop]}",
            ),
        ],
        "metrics_transform for traces": [
            ("processors", "{metrics_transform: {transforms: [{include: a, action: update, new_name: b}]}}"),
            (f"{traces}/processors", "[metrics_transform]"),
        ],
        "connector joins": [
            ("connectors", "{forward: }"),
            (f"{traces}/exporters", "[forward]"),
            (f"{whole}/traces~2", "{receivers: [forward], exporters: [nop]}"),
        ],
        "connector as exporter only": [("connectors", "{forward: }"), (f"{traces}/exporters", "[forward]")],
        "connector as receiver only": [("connectors", "{forward: }"), (f"{traces}/receivers", "[forward]")],
        "connector to another signal": [
            ("connectors", "{forward: }"),
            (f"{traces}/exporters", "[forward]"),
            (f"{whole}/logs", "{receivers: [forward], exporters: [nop]}"),
        ],
        "connector to itself": [
            ("connectors", "{forward: }"),
            (traces, "{receivers: [otlp, forward], exporters: [forward]}"),
        ],
        "connectors in a ring": [
            ("connectors", "{forward/a: , forward/b: }"),
            (traces, "{receivers: [otlp, forward/b], exporters: [forward/a]}"),
            (f"{whole}/traces~2", "{receivers: [forward/a], exporters: [forward/b]}"),
        ],
        "connector as processor": [("connectors", "{forward: }"), (f"{traces}/processors", "[forward]")],
        "connector and exporter": [("connectors", "{forward: }"), ("exporters", "{forward: }")],
        "same id as exporter": [("connectors", "{nop: }")],
        "alias": [
            ("exporters", "{otlphttp: {endpoint: 'http://127.0.0.1:1'}}"),
            (f"{traces}/exporters", "[otlphttp]"),
        ],
        "alias and name": [
            ("exporters", "{otlphttp: {endpoint: 'http://127.0.0.1:1'}}"),
            (f"{traces}/exporters", "[otlp_http]"),
        ],
        "alias beside name": [
            (
                "exporters",
                "{otlphttp: {endpoint: 'http://127.0.0.1:1'}, otlp_http: {endpoint: 'http://127.0.0.1:1'}}",
            ),
            (f"{traces}/exporters", "[otlp_http, otlphttp]"),
        ],
        "alias of grpc": [
            ("exporters", "{otlp: {endpoint: '127.0.0.1:1', tls: {insecure: true}}}"),
            (f"{traces}/exporters", "[otlp]"),
        ],
        "alias of transform": [("processors", "{metricstransform: {transforms: []}}")],
    }.items():
        yield over(f"pipeline: {name}", *layers)


_ACTIONS = (
    "{key: a, action: delete}", "{key: a, action: Delete}", "{action: delete}", "{pattern: a, action: delete}",
    "{key: a, action: nope}", "{action: insert, value: 1}", "{key: a, action: insert}", "{key: a, action: insert, value: null}",
    "{key: a, action: insert, value: ''}", "{key: a, action: insert, value: 1, from_attribute: b}",
    "{key: a, action: update, from_attribute: b, from_context: c}", "{key: a, action: upsert, value: 1, default_value: 2}",
    "{key: a, action: upsert, default_value: 2}", "{key: a, action: upsert, value: 1, pattern: a}",
    "{key: a, action: upsert, value: 1, converted_type: int}", "{key: a, action: insert, value: [1, {b: [c]}]}",
    "{key: a, action: insert, value: 2024-01-01}", "{key: a, action: insert, value: 18446744073709551615}",
    "{key: a, action: insert, value: -9223372036854775808}", "{key: a, action: insert, value: 1e400}",
    "{key: a, action: insert, value: .nan}",
    "{key: a, action: insert, value: {1: x}}",
    "{key: a, action: insert, from_context: metadata.x}", "{key: a, action: insert, from_context: client.address}",
    "{key: a, action: insert, from_context: auth.x}", "{key: a, action: insert, from_context: 'metadata.not a header'}",
    "{key: a, action: delete, value: 1}", "{key: a, action: hash, from_attribute: b}", "{key: a, action: hash, from_context: b}",
    "{key: a, action: delete, default_value: 1}", "{key: a, action: delete, converted_type: int}",
    "{key: a, pattern: '(', action: hash}", "{pattern: '[', action: delete}", "{key: a, action: hash, pattern: b}",
    "{key: a, action: extract}", "{key: a, action: extract, pattern: '('}", "{key: a, action: extract, pattern: a}",
    "{key: a, action: extract, pattern: '(a)'}", "{key: a, action: extract, pattern: '(?P<b>a)(c)'}",
    "{key: a, action: extract, pattern: '(?P<b>a)'}", "{key: a, action: extract, pattern: '(?P<b>a)', value: 1}",
    "{key: a, action: extract, pattern: '(?P<b>a)', converted_type: int}", "{key: a, action: convert}",
    "{action: extract, pattern: '(?P<b>a)'}", "{key: a, action: convert, converted_type: int}",
    "{key: a, action: convert, converted_type: INT}", "{key: a, action: convert, converted_type: nope}",
    "{key: a, action: convert, converted_type: int, pattern: b}", "{key: a, action: convert, converted_type: int, value: 1}",
)  # fmt: skip

_MATCHES = (
    "null", "{}", "{match_type: strict}", "{match_type: nope, services: [a]}", "{services: [a]}",
    "{match_type: strict, services: [a]}", "{match_type: strict, services: a}", "{match_type: regexp, services: ['(']}",
    "{match_type: Strict, services: [a]}", "{match_type: strict, span_names: [a]}", "{match_type: regexp, span_names: [a, '[']}",
    "{match_type: strict, span_kinds: [SPAN_KIND_SERVER]}", "{match_type: strict, span_kinds: [server]}",
    "{match_type: regexp, span_kinds: [server]}", "{match_type: strict, span_kinds: [SPAN_KIND_UNSPECIFIED]}",
    "{match_type: strict, log_bodies: [a]}", "{match_type: regexp, log_bodies: ['(']}",
    "{match_type: strict, log_severity_texts: [a]}", "{match_type: nope, log_severity_texts: [a]}",
    "{log_severity_number: {min: 9}}", "{log_severity_number: {min: INFO}}", "{log_severity_number: {nope: 1}}",
    "{log_severity_number: {}}", "{log_severity_number: null}", "{match_type: strict, metric_names: [a]}",
    "{match_type: nope, metric_names: [a]}", "{metric_names: [a]}", "{match_type: expr, metric_names: [a]}",
    "{match_type: expr, services: [a]}", "{match_type: regexp, metric_names: ['(']}", "{match_type: strict, attributes: []}",
    "{attributes: [{key: a}]}", "{match_type: strict, attributes: [{}]}", "{match_type: strict, attributes: [{value: a}]}",
    "{attributes: [{key: a, value: 1}]}", "{match_type: strict, attributes: [{key: a, value: 1}]}",
    "{match_type: regexp, attributes: [{key: a, value: 1}]}", "{match_type: regexp, attributes: [{key: a, value: 1.5}]}",
    "{match_type: regexp, attributes: [{key: a, value: true}]}", "{match_type: regexp, attributes: [{key: a, value: [a]}]}",
    "{match_type: regexp, attributes: [{key: a, value: {b: c}}]}", "{match_type: regexp, attributes: [{key: a, value: '('}]}",
    "{match_type: strict, attributes: [{key: a, value: {b: [c]}}]}", "{resources: [{key: a}]}",
    "{match_type: strict, resources: [{key: a, value: b}]}", "{match_type: nope, resources: [{key: a, value: b}]}",
    "{match_type: strict, libraries: [{name: a}]}", "{match_type: strict, libraries: [{name: a, version: b}]}",
    "{match_type: strict, libraries: [{version: b}]}", "{libraries: [{name: a}]}", "{match_type: regexp, libraries: [{name: '('}]}",
    "{match_type: regexp, libraries: [{name: a, version: '('}]}", "{match_type: strict, expressions: [a]}",
    "{match_type: regexp, regexp: {cacheenabled: true, cachemaxnumentries: 5}, resources: [{key: a, value: b}]}",
    "{match_type: regexp, regexp: {cacheenabled: true, cachemaxnumentries: -5}, resources: [{key: a, value: b}]}",
    "{match_type: regexp, regexp: {nope: 1}, resources: [{key: a, value: b}]}", "{nope: 1}",
)  # fmt: skip


def matches() -> Iterator[Case]:
    """Yield what chooses the items of `attributes`, for each signal, as include and as exclude."""
    for signal in ("traces", "metrics", "logs"):
        pipeline = "{receivers: [otlp], processors: [attributes], exporters: [nop]}"
        for number, match in enumerate(_MATCHES):
            name = ("include", "exclude")[number % 2]
            yield over(
                f"match: {signal} {name} {match}",
                ("processors/attributes", f"{{actions: [{{key: a, action: delete}}], {name}: {match}}}"),
                (f"service/pipelines/{signal}", pipeline),
            )


VALIDATION: Mapping[str, Sequence[str]] = {
    "receivers/otlp": ("{}", "null", "{protocols: }", "{protocols: {}}", "{protocols: {grpc: }}", "{protocols: {http: }}"),
    "receivers/otlp/protocols/grpc": (
        "{endpoint: ''}", "{endpoint: localhost}", "{endpoint: 'localhost:'}", "{endpoint: ':4317'}",
        "{endpoint: 'localhost:99999'}", "{endpoint: 'localhost:-1'}", "{endpoint: 'localhost:http'}",
        "{endpoint: '[::1]:0'}", "{endpoint: '::1:0'}", "{endpoint: 'http://localhost:4317'}", "{endpoint: '0.0.0.0:0'}",
        "{transport: unix, endpoint: /tmp/x}", "{transport: nope}", "{transport: tcp4}", "{transport: udp}",
        "{max_recv_msg_size_mib: -1}", "{max_recv_msg_size_mib: 0}", "{max_recv_msg_size_mib: 5}",
        "{max_concurrent_streams: 16}", "{read_buffer_size: 1024}", "{write_buffer_size: 1024}", "{read_buffer_size: -1}",
        "{include_metadata: true}", "{tls: {}}", "{tls: {cert_file: /none, key_file: /none}}", "{auth: {authenticator: x}}",
        "{keepalive: {}}", "{keepalive: {server_parameters: {max_connection_age: 60s}}}",
        "{keepalive: {enforcement_policy: {min_time: 1s}}}",
        "{keepalive: {server_parameters: {max_connection_age: -1s}}}",
        "{keepalive: {server_parameters: {time: 1ms, timeout: 0}}}",
        "{keepalive: {enforcement_policy: {min_time: -1s, permit_without_stream: yes}}}", "{keepalive: {nope: 1}}",
        "{max_concurrent_streams: 0}", "{max_concurrent_streams: -1}", "{max_recv_msg_size_mib: 100000}",
        "{tls: {min_version: '1.1'}}", "{tls: {min_version: 1.2}}", "{tls: {client_ca_file: /none}}",
        "{middlewares: []}", "{transport: TCP}", "{endpoint: '[::1]'}", "{endpoint: ' localhost:0'}",
        "{endpoint: 'localhost:00'}",
    ),
    "receivers/otlp/protocols/http": (
        "{endpoint: localhost}", "{endpoint: 'localhost:0'}", "{traces_url_path: traces}", "{traces_url_path: /t}",
        "{traces_url_path: ''}", "{traces_url_path: /v1/logs}", "{cors: {allowed_origins: ['*']}}",
        "{max_request_body_size: 100}", "{max_request_body_size: -1}", "{include_metadata: true}",
        "{compression_algorithms: [gzip]}", "{compression_algorithms: [nope]}", "{read_timeout: 5s}", "{write_timeout: -5s}",
        "{idle_timeout: 5s}", "{keep_alives_enabled: false}", "{response_headers: {a: b}}", "{tls: {}}",
        "{keepalive: {enabled: true}}", "{keepalive: {idle_timeout: 5s}}",
        "{cors: null}", "{cors: {}}", "{cors: {allowed_headers: [a]}}",
        "{cors: {allowed_origins: ['*'], allowed_headers: [x-a]}}", "{cors: {allowed_origins: '*'}}",
        "{cors: {max_age: -1}}", "{cors: {max_age: 99999999999}}", "{cors: {max_age: 1s}}",
        "{cors: {exposed_headers: ['a b']}}", "{cors: {nope: 1}}", "{read_header_timeout: -1s}",
        "{keepalive: {idle_timeout: -1s}}", "{keepalive: {enabled: false}}", "{keepalive: null}",
        "{compression_algorithms: []}", "{compression_algorithms: ['']}", "{response_headers: {Content-Type: a}}",
        "{response_headers: {a: null}}", "{response_headers: {'': a}}", "{logs_url_path: ''}",
        "{metrics_url_path: '/a?b'}", "{middlewares: []}", "{max_request_body_size: 1.5}",
        "{max_request_body_size: 20MB}",
    ),
    "processors/batch": (
        "{timeout: -1s}", "{timeout: 0}", "{send_batch_size: 10, send_batch_max_size: 5}",
        "{send_batch_max_size: 5}", "{send_batch_size: 0}", "{metadata_keys: [a, A]}", "{metadata_keys: [a]}",
        "{metadata_cardinality_limit: 0}",
        "{metadata_keys: null}", "{metadata_keys: ['']}", "{metadata_keys: a}", "{metadata_cardinality_limit: -1}",
        "{send_batch_size: 4294967296}", "{timeout: 1h30m}", "{timeout: 1.5}", "{nope: 1}",
    ),
    "processors/memory_limiter": (
        "{}", "{check_interval: 1s}", "{limit_mib: 100}", "{check_interval: 1s, limit_mib: 100}",
        "{check_interval: 1s, limit_percentage: 50}", "{check_interval: 1s, limit_percentage: 101}",
        "{check_interval: 1s, limit_percentage: 50, spike_limit_percentage: 50}",
        "{check_interval: 1s, limit_percentage: 50, spike_limit_percentage: 101}",
        "{check_interval: 1s, limit_mib: 100, spike_limit_mib: 100}", "{check_interval: -1s, limit_mib: 100}",
        "{check_interval: 1s, limit_mib: 100, spike_limit_mib: 20}", "{check_interval: 1s, limit_mib: 100, ballast_size_mib: 5}",
        "{check_interval: 1s, limit_mib: 1, min_gc_interval_when_soft_limited: 1s, min_gc_interval_when_hard_limited: 2s}",
        "{check_interval: 1s, limit_mib: 1, max_gc_interval_when_soft_limited: 1s}",
        "{check_interval: 1s, limit_percentage: -1}",
        "{check_interval: 0, limit_mib: 1}", "{check_interval: 1s, limit_mib: 10, limit_percentage: 50}",
        "{check_interval: 1s, limit_mib: 0, limit_percentage: 0}",
        "{check_interval: 1s, limit_percentage: 50, spike_limit_mib: 5}",
        "{check_interval: 1s, limit_percentage: 100, spike_limit_percentage: 100}",
        "{check_interval: 1s, spike_limit_mib: 5}", "{check_interval: 1us, limit_mib: 1}",
    ),
    "processors/probabilistic_sampler": (
        "{}", "{sampling_percentage: -1}", "{sampling_percentage: 101}", "{sampling_percentage: 1e-20}",
        "{sampling_percentage: 15.3, hash_seed: 22}", "{mode: proportional}", "{mode: nope}", "{mode: hash_seed}",
        "{sampling_percentage: 50, mode: equalizing, hash_seed: 1}", "{sampling_precision: 0}", "{sampling_precision: 15}",
        "{attribute_source: record}", "{attribute_source: nope}", "{from_attribute: x}", "{sampling_priority: x}",
        "{sampling_percentage: .inf}", "{sampling_percentage: .nan}", "{sampling_percentage: 100}",
        "{hash_seed: 4294967296}", "{hash_seed: -1}", "{sampling_precision: -1}", "{mode: ''}",
        "{mode: Proportional}", "{fail_closed: maybe}", "{attribute_source: record, from_attribute: ''}",
        "{attribute_source: ''}",
    ),
    "processors/metrics_transform": (
        "{}", "{transforms: []}", "{transforms: [{}]}", "{transforms: [{include: a}]}", "{transforms: [{action: update}]}",
        "{transforms: [{include: a, action: nope}]}", "{transforms: [{include: a, action: update, new_name: b}]}",
        "{transforms: [{include: a, action: insert}]}", "{transforms: [{include: '[', match_type: regexp, action: update}]}",
        "{transforms: [{include: a, action: update, operations: [{action: nope}]}]}",
        "{transforms: [{include: a, action: update, operations: [{action: delete_label_value}]}]}",
        "{transforms: [{include: a, match_type: nope, action: update}]}",
        "{transforms: null}", "{transforms: {}}", "{transforms: [null]}",
        "{transforms: [{include: '', action: update}]}", "{transforms: [{include: a, action: ''}]}",
        "{transforms: [{include: a, action: update, operations: []}]}",
        "{transforms: [{include: a, action: update, operations: [{}]}]}",
        "{transforms: [{include: a, action: update, operations: [{action: update_label, label: a}]}]}",
        "{transforms: [{include: a, action: update, operations: [{action: update_label, new_label: a}]}]}",
        "{transforms: [{include: a, action: update, operations: [{action: add_label, new_label: a}]}]}",
        "{transforms: [{include: a, action: update, operations: [{action: add_label, new_value: a}]}]}",
        "{transforms: [{include: a, action: update, operations: [{action: experimental_scale_value}]}]}",
        "{transforms: [{include: a, action: update, operations: [{action: aggregate_labels, label_set: []}]}]}",
        "{transforms: [{include: a, action: update, operations: [{action: aggregate_labels, aggregation_type: nope}]}]}",
        "{transforms: [{include: a, action: update, operations: [{action: aggregate_label_values, label: a, aggregated_values: [b]}]}]}",
        "{transforms: [{include: a, action: combine, new_name: b}]}", "{transforms: [{include: a, action: group}]}",
    ),
    "processors/attributes": (
        "{}", "null", "{actions: []}", "{actions: null}", "{actions: [{}]}", "{actions: [{key: a}]}",
        *(f"{{actions: [{action}]}}" for action in _ACTIONS),
        "{actions: [{key: a, action: delete}, {key: a}]}", "{actions: {key: a, action: delete}}",
        "{actions: [{key: 5, action: delete}]}", "{actions: [{key: a, action: delete, nope: 1}]}",
        "{actions: [{key: a, action: delete}], nope: 1}", "{attributes: [{key: a, action: delete}]}",
    ),
    "processors/resource": (
        "{}", "{attributes: []}", "{attributes: [{}]}", *(f"{{attributes: [{action}]}}" for action in _ACTIONS[:6]),
        "{actions: [{key: a, action: delete}]}",
    ),
    "exporters/debug": (
        "{}", "{verbosity: detailed}", "{verbosity: Detailed}", "{verbosity: none}", "{verbosity: nope}",
        "{sampling_initial: 5, sampling_thereafter: 200}", "{sampling_initial: -1}", "{use_internal_logger: false}",
        "{use_internal_logger: false, output_paths: [stdout]}", "{output_paths: [stdout]}", "{loglevel: debug}",
        "{sending_queue: {enabled: true}}",
        "{verbosity: ''}", "{sampling_initial: 0}", "{sampling_thereafter: -1}", "{sampling_initial: 1.5}",
        "{verbosity: 1}",
    ),
    "exporters/otlp_grpc": (
        "{}", "{endpoint: ''}", "{endpoint: localhost}", "{endpoint: 'localhost:1', tls: {insecure: true}}",
        "{endpoint: 'http://localhost:1'}", "{endpoint: 'http://localhost'}", "{endpoint: 'dns:///localhost:1', tls: {insecure: true}}",
        "{endpoint: 'unix:///tmp/x'}", "{endpoint: 'localhost:x', tls: {insecure: true}}",
        "{endpoint: 'localhost:99999', tls: {insecure: true}}", "{endpoint: 'a b:1', tls: {insecure: true}}",
    ),
    "exporters/otlp_grpc+": (
        "{timeout: -1s}", "{compression: none}", "{compression: ''}", "{compression: zstd}", "{compression: nope}",
        "{compression: deflate}", "{headers: {a: b}}", "{headers: [{name: a, value: b}]}", "{headers: {a: 5}}",
        "{headers: {'': b}}", "{headers: {'a b': c}}", "{headers: {a: ''}}", "{headers: {a: null}}",
        "{sending_queue: {enabled: false}}", "{sending_queue: null}", "{sending_queue: {queue_size: 0}}",
        "{sending_queue: {queue_size: -1}}", "{sending_queue: {num_consumers: 0}}", "{sending_queue: {sizer: items}}",
        "{sending_queue: {sizer: nope}}", "{sending_queue: {block_on_overflow: true}}", "{sending_queue: {storage: nope}}",
        "{sending_queue: {enabled: false, queue_size: 0}}", "{sending_queue: {batch: {}}}",
        "{retry_on_failure: {enabled: false}}", "{retry_on_failure: {initial_interval: -1s}}",
        "{retry_on_failure: {multiplier: -1}}", "{retry_on_failure: {randomization_factor: 2}}",
        "{retry_on_failure: {max_elapsed_time: 1s}}", "{retry_on_failure: {max_elapsed_time: 0}}",
        "{retry_on_failure: {enabled: false, max_elapsed_time: 1s}}", "{retry_on_failure: {max_interval: -1s}}",
        "{retry_on_failure: {max_interval: 1s}}", "{retry_on_failure: {max_elapsed_time: -1s}}",
        "{keepalive: {time: 10s, timeout: 5s, permit_without_stream: true}}", "{keepalive: }", "{balancer_name: round_robin}",
        "{balancer_name: nope}", "{wait_for_ready: true}", "{authority: x}", "{auth: {authenticator: nope}}",
        "{auth: null}", "{tls: {insecure_skip_verify: true}}", "{tls: {ca_file: /none}}", "{read_buffer_size: 1}",
        "{write_buffer_size: 1}", "{tls: null}", "{insecure: true}",
    ),
    "exporters/otlp_http": (
        "{}", "{endpoint: ''}", "{endpoint: localhost}", "{endpoint: 'localhost:4318'}", "{endpoint: 'http://x'}",
        "{endpoint: 'https://x'}", "{endpoint: 'ftp://x'}", "{endpoint: 'http://'}", "{endpoint: '://x'}",
        "{endpoint: 'http://x y'}", "{endpoint: 'http://x:99999'}", "{endpoint: 'http://[::1'}", "{traces_endpoint: 'http://x'}",
        "{logs_endpoint: 'http://x'}", "{endpoint: 'http://x/', traces_endpoint: x}", "{endpoint: 'http://x', encoding: json}",
        "{endpoint: 'http://x', encoding: nope}", "{endpoint: 'http://x', compression: zlib}",
        "{endpoint: 'http://x', compression: nope}", "{endpoint: 'http://x', compression_params: {level: 5}}",
        "{endpoint: 'http://x', compression_params: {level: 50}}", "{endpoint: 'http://x', compression: none, compression_params: {level: 1}}",
        "{endpoint: 'http://x', compression: zstd, compression_params: {level: 50}}",
        "{endpoint: 'http://x', compression: snappy, compression_params: {level: 1}}",
        "{endpoint: 'http://x', tls: {insecure: true}}", "{endpoint: 'http://x', tls: {insecure_skip_verify: true}}",
        "{endpoint: 'http://x', tls: {ca_file: /none}}", "{endpoint: 'http://x', headers: {Host: a}}",
        "{endpoint: 'http://x', timeout: -1s}", "{endpoint: 'http://x', timeout: 0}", "{endpoint: 'http://x', proxy_url: 'http://y'}",
        "{endpoint: 'http://x', proxy_url: '::'}", "{endpoint: 'http://x', max_idle_conns: 5}",
        "{endpoint: 'http://x', max_idle_conns_per_host: 5, max_conns_per_host: 5, idle_conn_timeout: 5s}",
        "{endpoint: 'http://x', disable_keep_alives: true}", "{endpoint: 'http://x', http2_read_idle_timeout: 5s}",
        "{endpoint: 'http://x', force_attempt_http2: true}", "{endpoint: 'http://x', cookies: {enabled: true}}",
        "{endpoint: 'http://x', read_buffer_size: 5, write_buffer_size: 5}", "{endpoint: 'http://x', auth: {authenticator: nope}}",
        "{endpoint: 'http://x', profiles_endpoint: 'http://y'}",
    ),
    "exporters/file": (
        "{}", "{path: ''}", "{path: null}", "{path: 5}", "{path: /none/x}", "{path: /dev/null}", "{path: /tmp}",
        "{path: /dev/null, format: proto}", "{path: /dev/null, format: nope}", "{path: /dev/null, format: JSON}",
        "{path: /dev/null, compression: zstd}", "{path: /dev/null, compression: gzip}",
        "{path: /dev/null, compression: ''}", "{path: /dev/null, rotation: {}}", "{path: /dev/null, rotation: null}",
        "{path: /dev/null, rotation: {max_megabytes: 0}}", "{path: /dev/null, rotation: {max_megabytes: -1}}",
        "{path: /dev/null, rotation: {max_days: -1}}", "{path: /dev/null, rotation: {max_backups: -1}}",
        "{path: /dev/null, append: true}", "{path: /dev/null, append: true, compression: zstd}",
        "{path: /dev/null, append: true, rotation: {}}", "{path: /dev/null, flush_interval: -1s}",
        "{path: /dev/null, flush_interval: 1}", "{path: /dev/null, encoding: nope}",
        "{path: /dev/null, group_by: {enabled: true}}", "{path: /dev/null, create_directory: true}",
        "{path: /dev/null, create_directory: true, directory_permissions: '0700'}",
        "{path: /dev/null, create_directory: true, directory_permissions: 0700}",
        "{path: /dev/null, create_directory: true, directory_permissions: '0999'}",
        "{path: /dev/null, directory_permissions: '0700'}", "{path: /dev/null, compression_params: {}}",
        "{path: /dev/null, compression: none}",
    ),
    "extensions/health_check": (
        "{}", "{endpoint: ''}", "{endpoint: localhost}", "{path: x}", "{path: ''}", "{response_body: {healthy: yes}}",
        "{response_body: {healthy: 'yes', unhealthy: 'no'}}", "{check_collector_pipeline: {enabled: true, interval: 5m}}",
        "{check_collector_pipeline: {enabled: true, interval: x}}", "{tls: {}}", "{cors: {}}",
        "{endpoint: ':0'}", "{path: '/a b'}", "{path: '/?a'}", "{use_v2: true}", "{response_body: null}",
        "{check_collector_pipeline: {enabled: false}}", "{nope: 1}",
    ),
    "connectors/forward": ("{}", "null", "[]"),
    "exporters/nop": ("{}", "null", "[]"),
    "service/telemetry/logs": (
        "{}", "null", "{level: debug}", "{level: INFO}", "{level: Warn}", "{level: fatal}", "{level: ''}", "{level: warning}",
        "{level: nope}", "{level: trace}", "{encoding: json}", "{encoding: JSON}", "{encoding: nope}", "{encoding: ''}", "{development: true}",
        "{sampling: null}", "{sampling: {enabled: false}}", "{sampling: {initial: -1}}", "{sampling: {tick: 0}}",
        "{sampling: {thereafter: 0}}", "{output_paths: [stdout]}", "{output_paths: []}", "{output_paths: null}",
        "{output_paths: [/none/x]}", "{output_paths: ['nope://x']}", "{output_paths: ['file:///none/x']}", "{error_output_paths: [stdout]}",
        "{disable_caller: true, disable_stacktrace: true}", "{initial_fields: {a: b, c: 1}}", "{initial_fields: []}",
        "{processors: []}", "{processors: [{batch: {exporter: {console: {}}}}]}", "{disable_zap_resource: true}",
    ),
    "service/telemetry/metrics": (
        "{}", "null", "{level: none}", "{level: None}", "{level: basic}", "{level: Detailed}", "{level: nope}", "{level: ''}",
        "{address: 'localhost:8888'}", "{readers: []}", "{level: none, readers: []}", "{readers: null}", "{readers: [{}]}",
        "{readers: [{pull: {}}]}", "{readers: [{pull: {exporter: {}}}]}", "{readers: [{pull: {exporter: {prometheus: {}}}}]}",
        "{readers: [{pull: {exporter: {prometheus: }}}]}",
        "{readers: [{pull: {exporter: {prometheus: {host: 127.0.0.1}}}}]}", "{readers: [{pull: {exporter: {prometheus: {port: 0}}}}]}",
        "{readers: [{pull: {exporter: {prometheus: {host: 127.0.0.1, port: 0}}}}]}",
        "{readers: [{pull: {exporter: {prometheus: {host: 127.0.0.1, port: 70000}}}}]}",
        "{readers: [{pull: {exporter: {prometheus: {host: 127.0.0.1, port: -1}}}}]}",
        "{readers: [{pull: {exporter: {prometheus: {host: 127.0.0.1, port: '0'}}}}]}",
        "{readers: [{pull: {exporter: {prometheus: {host: 127.0.0.1, port: 0, nope: 1}}}}]}",
        "{readers: [{pull: {exporter: {prometheus: {host: 127.0.0.1, port: 0, without_units: false}}}}]}",
        "{readers: [{pull: {exporter: {nope: {}}}}]}", "{readers: [{nope: {}}]}",
        "{readers: [{periodic: {exporter: {console: {}}}}]}", "{readers: [{periodic: {}}]}",
        "{readers: [{periodic: {interval: 1000, exporter: {otlp: {protocol: http/protobuf, endpoint: 'http://127.0.0.1:1'}}}}]}",
        "{readers: [{periodic: {exporter: {otlp: {protocol: grpc, endpoint: 'http://127.0.0.1:1', headers: [{name: a, value: b}]}}}}]}",
        "{level: detailed, views: []}", "{level: basic, views: [{selector: {instrument_name: a}, stream: {aggregation: {drop: {}}}}]}",
        "{level: detailed, views: [{selector: {instrument_name: a}, stream: {aggregation: {drop: {}}}}]}",
    ),
    "service/telemetry/traces": (
        "{}", "null", "{level: none}", "{level: basic}", "{level: normal}", "{propagators: [tracecontext]}", "{propagators: [nope]}",
        "{processors: []}", "{processors: [{batch: {exporter: {console: {}}}}]}",
        "{processors: [{batch: {exporter: {otlp: {protocol: grpc, endpoint: 'http://127.0.0.1:1'}}}}]}", "{sampler: {}}",
        "{sampler: {always_on: {}}}",
    ),
    "service/telemetry/resource": (
        "{}", "null", "{service.name: x}", "{service.name: null}", "{a: 5}", "{a: true}", "{a: ''}", "{a: [b]}", "{attributes: []}",
        "{attributes: [{name: a, value: b}]}", "{attributes: [{name: a, value: 5, type: int}]}", "{attributes: [{name: a}]}",
        "{attributes: {a: b}}", "{attributes: [{name: a, value: b}], c: d}", "{schema_url: x}", "{attributes_list: a=b}",
        "{detectors: {}}",
    ),
}  # fmt: skip
_GRPC = ("exporters/otlp_grpc", '{endpoint: "127.0.0.1:1", tls: {insecure: true}}')


def validation() -> Iterator[Case]:
    """Yield what the components and the telemetry section check, with the component in use."""
    for path, values in VALIDATION.items():
        kind, _, id = path.partition("/")
        for value in values:
            layers = [(path.rstrip("+"), value)]
            if path.endswith("+"):
                layers.insert(0, _GRPC)
            if path.endswith("/http"):
                layers.insert(0, (path, "{endpoint: '127.0.0.1:0'}"))
            if kind == "exporters":
                layers.append(("service/pipelines/traces/exporters", f"[{id.rstrip('+')}]"))
            elif id == "metrics_transform":
                layers.append(
                    (
                        "service/pipelines/metrics",
                        f"{{receivers: [otlp], processors: [{id}], exporters: [nop]}}",
                    )
                )
            elif kind == "processors":
                layers.append(("service/pipelines/traces/processors", f"[{id}]"))
            elif kind == "extensions":
                layers.append(("service/extensions", f"[{id}]"))
            yield over(f"validation: {path.rstrip('+')} {value}", *layers)


def unused() -> Iterator[Case]:
    """Yield what is checked of components that are configured and that nothing uses."""
    for path, values in VALIDATION.items():
        section, _, rest = path.rstrip("+").partition("/")
        if section == "service":
            continue
        type, slash, below = rest.partition("/")
        id = f"{section}/{type}~unused"
        for value in values:
            layers = [(f"{id}{slash}{below}", value)]
            if path.endswith("+"):
                layers.insert(0, (id, _GRPC[1]))
            yield over(f"unused: {path.rstrip('+')} {value}", *layers)


def merging() -> Iterator[Case]:
    """Yield layers over layers."""
    for name, layers in {
        "map over map": [("processors/batch", "{timeout: 1s}"), ("processors/batch", "{send_batch_size: 5}")],
        "scalar over scalar": [("processors/batch/timeout", "1s"), ("processors/batch/timeout", "2s")],
        "list over list": [("service/pipelines/traces/processors", "[]")],
        "null over map": [("processors/batch", "{timeout: 1s}"), ("processors/batch", "null")],
        "empty map over map": [("processors/batch", "{timeout: 1s}"), ("processors/batch", "{}")],
        "map over null": [("processors/batch", "null"), ("processors/batch", "{timeout: 1s}")],
        "map over scalar": [("processors/batch/timeout", "1s"), ("processors/batch/timeout", "{a: b}")],
        "scalar over map": [("processors/batch", "{timeout: 1s}"), ("processors/batch", "5")],
        "scalar over map, back": [("processors/batch", "5"), ("processors/batch", "{timeout: 1s}")],
        "list over map": [("processors/batch", "[]")],
        "null section": [("processors", "null")],
        "null section, back": [("processors", "null"), ("processors", "{batch: {timeout: 3s}}")],
        "empty section": [("processors", "{}")],
        "null all": [("receivers", "null"), ("exporters", "null"), ("service", "null")],
        "null key": [("processors/batch/timeout", "null")],
        "reference over text": [("processors/batch/timeout", "'${env:X}'")],
        "map from a reference": [
            ("processors/batch", "'${env:MAP}'"),
            ("processors/batch", "{send_batch_size: 5}"),
        ],
        "map over a map from a reference": [("processors", "'${env:BATCH}'")],
        "section from a reference": [
            ("processors", "'${env:BATCH}'"),
            ("processors", "{batch: {timeout: 9s}}"),
        ],
        "pipelines from a reference": [("service/pipelines/traces/processors", "'${env:LIST}'")],
        "key with dots": [("exporters/otlp_http", '{endpoint: "http://x", headers: {a.b: c}}')],
        "key with colons": [("exporters/otlp_http", '{endpoint: "http://x", headers: {"a::b": c}}')],
        "key with a reference": [("exporters/otlp_http", '{endpoint: "http://x", headers: {"${env:X}": c}}')],
        "id from a reference": [("service/pipelines/traces/exporters", "['${env:NOP}']")],
    }.items():
        yield over(
            f"merge: {name}",
            *layers,
            X="7s",
            MAP="{timeout: 4s}",
            BATCH="{batch: {timeout: 5s}}",
            LIST="[batch]",
            NOP="nop",
        )


_NO_PAGE = "telemetry: {metrics: {readers: [{pull: {exporter: {prometheus: {host: 127.0.0.1, port: 0}}}}]}}"

EXAMPLES = {
    "quick start": f"""
receivers:
  otlp:
    protocols:
      grpc:
        endpoint: 127.0.0.1:0
      http:
        endpoint: 127.0.0.1:0
processors:
  batch:
exporters:
  debug:
    verbosity: detailed
service:
  {_NO_PAGE}
  pipelines:
    traces: &all
      receivers: [otlp]
      processors: [batch]
      exporters: [debug]
    metrics: *all
    logs: *all
""",
    "agent": f"""
extensions:
  health_check:
    endpoint: ${{env:POD_IP:-127.0.0.1}}:0
receivers:
  otlp:
    protocols:
      grpc: {{endpoint: "${{env:POD_IP:-127.0.0.1}}:0", max_recv_msg_size_mib: 16}}
      http: {{endpoint: "${{env:POD_IP:-127.0.0.1}}:0"}}
processors:
  memory_limiter:
    check_interval: 1s
    limit_percentage: 75
    spike_limit_percentage: 15
  batch:
    send_batch_size: 1024
    send_batch_max_size: 2048
    timeout: 5s
exporters:
  otlp:
    endpoint: ${{env:GATEWAY}}
    tls:
      insecure: true
      insecure_skip_verify: true
    compression: gzip
    sending_queue:
      enabled: true
      num_consumers: 4
      queue_size: 500
    retry_on_failure:
      enabled: true
      initial_interval: 1s
      max_interval: 10s
      max_elapsed_time: 120s
service:
  {_NO_PAGE}
  extensions: [health_check]
  pipelines:
    traces:
      receivers: [otlp]
      processors: [memory_limiter, batch]
      exporters: [otlp]
    metrics:
      receivers: [otlp]
      processors: [memory_limiter, batch]
      exporters: [otlp]
    logs:
      receivers: [otlp]
      processors: [memory_limiter, batch]
      exporters: [otlp]
""",
    "vendor over HTTP": f"""
receivers:
  otlp: {{protocols: {{http: {{endpoint: "127.0.0.1:0"}}}}}}
exporters:
  otlphttp/vendor:
    endpoint: http://vendor.example:4318/api/
    headers:
      Authorization: Api-Token ${{env:TOKEN}}
      x-dataset: ${{DATASET}}
    compression: none
    timeout: 10s
  otlp_http/logs:
    logs_endpoint: http://vendor.example/otlp/v1/logs
    encoding: json
    headers: [{{name: x-api-key, value: "${{env:TOKEN}}"}}]
service:
  {_NO_PAGE}
  pipelines:
    traces: {{receivers: [otlp], exporters: [otlphttp/vendor]}}
    logs: {{receivers: [otlp], exporters: [otlp_http/logs]}}
""",
    "sampling": f"""
receivers: {{otlp: {{protocols: {{grpc: {{endpoint: "127.0.0.1:0"}}}}}}}}
processors:
  probabilistic_sampler:
    mode: proportional
    sampling_percentage: 15.3
    fail_closed: false
  probabilistic_sampler/logs:
    sampling_percentage: 10
    attribute_source: record
    from_attribute: request.id
    sampling_priority: priority
exporters: {{debug: {{sampling_initial: 5, sampling_thereafter: 200}}}}
service:
  {_NO_PAGE}
  pipelines:
    traces: {{receivers: [otlp], processors: [probabilistic_sampler], exporters: [debug]}}
    logs: {{receivers: [otlp], processors: [probabilistic_sampler/logs], exporters: [debug]}}
""",
    "telemetry": """
receivers: {otlp: {protocols: {grpc: {endpoint: "127.0.0.1:0"}}}}
exporters: {nop: }
service:
  telemetry:
    resource:
      service.name: my-collector
      service.instance.id:
      deployment.environment: test
    logs:
      level: warn
      encoding: json
      development: true
      disable_caller: true
      disable_stacktrace: true
      output_paths: [stderr]
      error_output_paths: [stderr]
      initial_fields: {team: edge, zone: 3}
      sampling: {enabled: true, tick: 10s, initial: 5, thereafter: 200}
    metrics:
      level: detailed
      readers:
        - pull:
            exporter:
              prometheus:
                host: 127.0.0.1
                port: 0
                without_scope_info: true
                without_type_suffix: true
                without_units: true
                with_resource_constant_labels: {included: [service.*], excluded: []}
    traces: {level: none, propagators: [tracecontext, b3]}
  pipelines:
    traces: {receivers: [otlp], exporters: [nop]}
""",
    "declared resource": """
receivers: {otlp: {protocols: {grpc: {endpoint: "127.0.0.1:0"}}}}
exporters: {nop: }
service:
  telemetry:
    resource: {attributes: [{name: service.name, value: mine}, {name: zone, value: a}]}
    metrics: {level: none}
  pipelines:
    traces: {receivers: [otlp], exporters: [nop]}
""",
    "forward": f"""
receivers: {{otlp: {{protocols: {{grpc: {{endpoint: "127.0.0.1:0"}}}}}}}}
processors: {{batch/fast: {{timeout: 100ms}}, batch/slow: {{timeout: 10s, send_batch_size: 50000}}}}
connectors: {{forward: , forward/second: {{}}}}
exporters: {{debug: , debug/second: {{verbosity: basic}}}}
service:
  {_NO_PAGE}
  pipelines:
    traces/in: {{receivers: [otlp], processors: [batch/fast], exporters: [forward, forward/second]}}
    traces/a: {{receivers: [forward], exporters: [debug]}}
    traces/b: {{receivers: [forward/second], processors: [batch/slow], exporters: [debug/second]}}
""",
    "metrics": f"""
receivers: {{otlp: {{protocols: {{http: {{endpoint: "127.0.0.1:0"}}}}}}}}
processors:
  metrics_transform:
    transforms:
      - include: ^http\\.server\\.(.*)$$
        match_type: regexp
        action: update
        new_name: web.$${{1}}
      - include: system.cpu.usage
        action: update
        operations:
          - action: delete_label_value
            label: state
            label_value: idle
          - action: aggregate_labels
            label_set: [state]
            aggregation_type: sum
exporters: {{nop: }}
service:
  {_NO_PAGE}
  pipelines:
    metrics: {{receivers: [otlp], processors: [metrics_transform], exporters: [nop]}}
""",
    "pprof and zpages": """
extensions: {health_check: , pprof: {endpoint: "localhost:1777"}, zpages: {endpoint: "localhost:55679"}}
receivers: {otlp: {protocols: {grpc: }}}
exporters: {logging: {loglevel: debug}, debug: }
service:
  extensions: [health_check, pprof, zpages]
  pipelines: {traces: {receivers: [otlp], exporters: [debug]}}
""",
    "what others have": """
receivers: {otlp: {protocols: {grpc: }}, prometheus: , jaeger: , hostmetrics: }
processors: {attributes: , resource: , filter: , transform: , tail_sampling: , k8sattributes: , batch: }
exporters: {kafka: , prometheus: , prometheusremotewrite: , loadbalancing: , jaeger: , otlp: {endpoint: "a:1"}}
service:
  pipelines: {traces: {receivers: [otlp], processors: [batch], exporters: [otlp]}}
""",
}
_EXAMPLE_ENVIRON = {"GATEWAY": "127.0.0.1:1", "TOKEN": "0123", "DATASET": "1e3"}


def examples() -> Iterator[Case]:
    """Yield whole configurations as people have them."""
    for name, text in EXAMPLES.items():
        yield Case(
            f"example: {name}", ("--config=FOLDER/config.yaml",), {"config.yaml": text}, _EXAMPLE_ENVIRON
        )
