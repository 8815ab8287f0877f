#!/bin/sh
# See that the C libraries of the build are there: install them with apt where that is possible, else name the packages.
# Usage: deploy/libraries.sh PYTHON
set -eu
python=$1

has_module() { pkg-config --exists "$1" 2>/dev/null; }
has_header() { "$python" -c 'import os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")' 2>/dev/null; }
has_venv() { "$python" -c 'import ensurepip, venv' 2>/dev/null; }
in_apt() { apt-cache show "$1" >/dev/null 2>&1; }
has_library() { PATH="$PATH:/sbin:/usr/sbin" ldconfig -p 2>/dev/null | grep -q "$1"; }

# Debian 12 has the sources of llhttp in a package for Node.js, and no library.
has_llhttp() { has_module libllhttp || [ -e /usr/share/llhttp/llhttp.c ]; }
llhttp() { if ! in_apt libllhttp-dev && in_apt node-llhttp; then echo node-llhttp; else echo libllhttp-dev; fi; }

# What the build cannot do without; a line each: the package's name in Debian, in Fedora.
missing() {
    command -v pkg-config >/dev/null || echo pkg-config pkgconf
    has_module libnghttp2 || echo libnghttp2-dev libnghttp2-devel
    has_module "openssl >= 3.0" || echo libssl-dev openssl-devel
    has_module libzstd || echo libzstd-dev libzstd-devel
    has_module zlib || echo zlib1g-dev zlib-devel
    has_module libpcre2-8 || echo libpcre2-dev pcre2-devel
    has_module yaml-0.1 || echo libyaml-dev libyaml-devel
    has_llhttp || echo "$(llhttp)" llhttp-devel
    has_header || echo python3-dev python3-devel
    has_venv || echo python3-venv python3
}

# What it uses where it is: faster gzip, snappy and lz4.
useful() {
    has_module libdeflate || echo libdeflate-dev libdeflate-devel
    has_module snappy || echo libsnappy-dev snappy-devel
    has_library liblz4.so.1 || echo liblz4-1 lz4-libs
}

if [ -n "$(missing; useful)" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "installing C libraries with apt ..."
    apt-get update -qq
    packages=$( (missing; useful) | cut -d ' ' -f 1)
    # shellcheck disable=SC2086 # one word a package
    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $packages >/dev/null
fi

if [ -n "$(missing)" ]; then
    echo "spansieve needs these packages; install them, or run make as root on Debian or Ubuntu:" >&2
    echo "  Debian, Ubuntu: $(missing | cut -d ' ' -f 1 | xargs)" >&2
    echo "  Fedora:         $(missing | cut -d ' ' -f 2 | xargs)" >&2
    exit 1
fi
