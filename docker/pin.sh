#!/bin/sh
# Write the digest that each image's tag has today into compose.yaml and the Dockerfiles:  docker/pin.sh [--check]
# With --check it only says which tags have moved (exit 1). Needs docker with buildx, and the network.
set -eu
cd "$(dirname "$0")"
moved=0
for image in $(grep -hoE '[a-z0-9./-]+:[A-Za-z0-9._-]+@sha256:[0-9a-f]{64}' compose.yaml ./*.Dockerfile | sort -u); do
    tag=${image%@*}
    digest=$(docker buildx imagetools inspect "$tag" --format '{{.Manifest.Digest}}')
    case $digest in sha256:????????????????????????????????????????????????????????????????) ;; *) echo "pin: no digest of $tag: $digest" >&2; exit 2 ;; esac
    [ "$image" != "$tag@$digest" ] || continue
    echo "$tag: ${image#*@} -> $digest"
    moved=1
    [ "${1:-}" = --check ] || for file in compose.yaml ./*.Dockerfile; do
        sed "s|$image|$tag@$digest|g" "$file" >"$file.new" && cat "$file.new" >"$file" && rm "$file.new"
    done
done
[ "${1:-}" != --check ] || exit $moved
