#!/bin/sh
# Build the real Collector from its Go modules with its own builder, once a release; print the path of the binary.
# Usage: build_collector.sh FOLDER [VERSION [MANIFEST]]; all that is made goes into FOLDER. Without VERSION it is the
# newest release that the module proxy has, or, where that cannot be asked, the one that was built last.
set -eu
folder=$1
version=${2:-}
manifest=${3:-$(dirname "$0")/builder.yaml}
builder=go.opentelemetry.io/collector/cmd/builder

if ! command -v go >/dev/null; then
    echo "The OpenTelemetry Collector is built with Go: install golang 1.25 or newer." >&2
    exit 1
fi

if [ -z "$version" ] && ! version=$(cd / && go list -m -f '{{.Version}}' "$builder@latest"); then
    # shellcheck disable=SC2012 # our own names
    binary=$(ls -t "$folder"/*/otelcol 2>/dev/null | head -n 1)
    if [ -z "$binary" ]; then
        echo "no Collector was built in $folder before, and the module proxy does not say which is the newest" >&2
        exit 1
    fi
    echo "$binary"
    exit 0
fi

draft=$folder/$version
binary=$draft/otelcol
if [ ! -x "$binary" ] || [ "$manifest" -nt "$binary" ]; then
    echo "building the OpenTelemetry Collector $version, which takes minutes ..." >&2
    mkdir -p "$draft"
    sed "s/ VERSION$/ $version/" "$manifest" >"$draft/builder.yaml"
    # What the manifest replaces: a module that only tests of others import, and that not every proxy has.
    sed -n 's/^  - \(.*\) => .\/tests-only$/\1/p' "$manifest" | while read -r module; do
        mkdir -p "$draft/tests-only"
        echo "module $module" >"$draft/tests-only/go.mod"
        echo "package ${module##*/}" >"$draft/tests-only/empty.go"
    done
    if ! (cd "$draft" && go run "$builder@$version" --config builder.yaml) >"$draft/build.log" 2>&1; then
        tail -n 30 "$draft/build.log" >&2
        exit 1
    fi
fi
echo "$binary"
