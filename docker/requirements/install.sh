#!/bin/sh
# Make a virtual environment from a lock file:  docker/requirements/install.sh VENV base|dev
# Needs Python 3.11 or newer and the network (or a warm package cache). Says what is missing, and changes nothing else.
set -eu
venv=$1
set_name=$2
cd "$(dirname "$0")/../.."

say() { echo "install: $*" >&2; }
fail() { say "$*"; exit 1; }

find_python() {
    for candidate in "${PYTHON:-python3}" python3.13 python3.12 python3.11; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    fail "needs Python 3.11 or newer, found $("${PYTHON:-python3}" --version 2>&1 || echo none)"
}

make_venv() {
    python=$(find_python)
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    "$python" -c 'import ensurepip, venv' 2>/dev/null ||
        fail "this Python cannot make virtual environments; on Debian and Ubuntu: apt install python$version-venv"
    "$python" -m venv "$venv"
}

# uv does not read pip's configuration; hand on the one setting that decides which build of torch is found
find_links() {
    links=${UV_FIND_LINKS:-${PIP_FIND_LINKS:-$("$venv/bin/python" -m pip config get global.find-links 2>/dev/null || true)}}
    echo "$links" | tr -s ' \n' ',' | sed 's/,$//'
}

# Every build is checked by its hash. With no build that is known, put torch there yourself: the pinned version stays as it is.
install_torch() {
    torch=$(sed -nE 's/^ *"(torch==[0-9.]+)",.*/\1/p' pyproject.toml)
    [ -n "$torch" ] || fail "pyproject.toml must pin torch as torch==X.Y.Z, found no such line"
    if "$venv/bin/python" -c 'import sys, importlib.metadata as m
sys.exit(m.version("torch").split("+")[0] != sys.argv[1].split("==")[1])' "$torch" 2>/dev/null; then
        return
    fi
    set -- --quiet --python "$venv/bin/python" --no-deps --require-hashes
    links=$(find_links)
    if [ -n "$links" ] && UV_FIND_LINKS=$links "$venv/bin/uv" pip install "$@" -r docker/requirements/torch-cpu.lock; then
        return
    fi
    if [ "$(uname)" = Darwin ] || nvidia-smi >/dev/null 2>&1; then
        "$venv/bin/uv" pip install "$@" -r docker/requirements/torch.lock
    elif ! "$venv/bin/uv" pip install --torch-backend=cpu "$@" -r docker/requirements/torch-cpu.lock; then
        say "no CPU build of $torch could be fetched; installing the default one, which is larger (CUDA)"
        "$venv/bin/uv" pip install "$@" -r docker/requirements/torch.lock
    fi
}

[ -x "$venv/bin/python" ] || make_venv
[ -x "$venv/bin/uv" ] ||
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r docker/requirements/tools.lock
"$venv/bin/uv" pip install --quiet --python "$venv/bin/python" --require-hashes --no-deps \
    -r docker/requirements/tools.lock -r "docker/requirements/$set_name.lock" -r docker/requirements/benchmarks.lock
install_torch
"$venv/bin/uv" pip install --quiet --python "$venv/bin/python" --no-deps --no-build-isolation --editable .
say "$venv is ready"
