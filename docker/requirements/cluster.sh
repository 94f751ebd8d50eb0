#!/bin/sh
# Make the environment of a Ray cluster's nodes:  docker/requirements/cluster.sh VENV
# OpenRLHF, the vLLM it wants and what both build on a machine with an NVIDIA GPU; see docs/guides/openrlhf.md.
# Needs Python 3.10 to 3.12, the network (or a warm package cache) and CUDA's compiler: flash-attn is built here, for an hour
# or so with MAX_JOBS processes, unless UV_FIND_LINKS has a wheel of it. Runs again where it stopped.
set -eu
venv=$1
here=$(cd "$(dirname "$0")" && pwd)

say() { echo "cluster: $*" >&2; }
fail() { say "$*"; exit 1; }

find_python() {
    for candidate in "${PYTHON:-python3}" python3.12 python3.11 python3.10; do
        if "$candidate" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 13))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    fail "OpenRLHF needs Python 3.10 to 3.12, found $("${PYTHON:-python3}" --version 2>&1 || echo none)"
}

install() {
    "$venv/bin/uv" pip install --quiet --python "$venv/bin/python" "$@"
}

if [ ! -x "$venv/bin/python" ]; then
    python=$(find_python)
    "$python" -m venv "$venv" || fail "this Python cannot make virtual environments"
fi
[ -x "$venv/bin/uv" ] || "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "uv==$(
    sed -nE 's/^uv==([0-9.]+).*/\1/p' "$here/tools.lock")"

# flash-attn and deepspeed are built against the torch that is there: it comes first, and they without isolation
plan=$(mktemp)
trap 'rm -f "$plan"' EXIT
"$venv/bin/uv" pip compile --quiet --no-header --no-annotate --python "$venv/bin/python" "$here/cluster.txt" >"$plan" ||
    fail "what docker/requirements/cluster.txt names cannot be installed together here"
install setuptools wheel packaging psutil ninja "$(grep -E '^torch==' "$plan")" "$(grep -E '^numpy==' "$plan")"
"$venv/bin/python" -c 'import sys, torch; sys.exit(torch.version.cuda is None)' ||
    fail "wanted a CUDA build of torch, found a CPU build; does UV_FIND_LINKS or pip's find-links hold one?"
"$venv/bin/python" -c 'import flash_attn' 2>/dev/null || command -v nvcc >/dev/null || [ -n "${UV_FIND_LINKS:-}" ] ||
    fail "flash-attn is built from source and needs CUDA's compiler (nvcc), found none"
DS_BUILD_OPS=0 install --no-build-isolation -r "$plan"

broken=
for module in torch ray deepspeed transformers peft flash_attn vllm openrlhf.cli.train_ppo_ray; do
    "$venv/bin/python" -c "import importlib.util, sys; m = sys.argv[1]
importlib.util.find_spec(m) if '.' in m else __import__(m)" "$module" >/dev/null 2>"$plan" || {
        say "$module: $(tail -n 1 "$plan")"
        broken="$broken $module"
    }
done
[ -z "$broken" ] || fail "these do not load:$broken"
say "$venv is ready"
