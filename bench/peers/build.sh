#!/bin/sh
# Get the peers from their official packages, once; print each with its version, or why it cannot be had.
# Usage: build.sh FOLDER PYTHON; all that is made goes into FOLDER, one line a peer into FOLDER/peers.tsv:
# name, version, path; or name, `missing`, why. COLLECTOR and ROTEL name other releases.
set -eu
folder=$1
python=$2
here=$(dirname "$0")
found=$folder/peers.tsv
mkdir -p "$folder"
: >"$found.new"

record() { printf '%s\t%s\t%s\n' "$1" "$2" "$3" | tee -a "$found.new"; }

# The newest release of which the module proxy serves every component; v0.165.0 lacks what the filter processor needs.
collector=${COLLECTOR:-v0.161.0}
if binary=$("$here/../../tests/interop/build_collector.sh" "$folder/collector" "$collector" "$here/otelcol.yaml"); then
    record otelcol "$collector" "$binary"
else
    record otelcol missing "the build of $collector failed"
fi

# The wheel carries the program. The crate of this name is another project.
rotel=${ROTEL:-0.0.1a15}
environment=$folder/rotel/$rotel
if [ ! -x "$environment/bin/python" ]; then
    "$python" -m venv "$environment"
fi
pip="$environment/bin/python -m pip install --quiet --disable-pip-version-check --root-user-action ignore"
if $pip "rotel==$rotel" && binary=$(find "$environment" -name rotel-agent | grep .); then
    record rotel "$rotel" "$binary"
else
    record rotel missing "no wheel of $rotel for this machine"
fi

record dataflow-engine missing "the OTel-Arrow Dataflow Engine is in no package registry: its crates are not published"

for name in fluent-bit vector; do
    record "$name" missing "Debian 12 has no package of it"
done
mv "$found.new" "$found"
