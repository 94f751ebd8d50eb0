#!/bin/sh
# What some tests need from the system: a browser and a sandbox. Installed where we may, else named.
set -eu

missing=
command -v chromium-headless-shell >/dev/null || command -v chromium >/dev/null || command -v chromium-browser >/dev/null ||
    command -v google-chrome >/dev/null || missing="$missing chromium"
[ "$(uname)" != Linux ] || command -v bwrap >/dev/null || missing="$missing bubblewrap"
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "system: installing$missing" >&2
    apt-get update -qq >&2 || true
    if apt-cache show chromium-headless-shell >/dev/null 2>&1; then
        missing=$(echo "$missing" | sed 's/ chromium/ chromium-headless-shell/')  # cheaper; not on Ubuntu
    fi
    # shellcheck disable=SC2086  # the words are meant to split
    if DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $missing >&2; then
        exit 0
    fi
fi
echo "system: not installed:$missing; the tests that need them are reported as skipped (Debian: apt install$missing)" >&2
