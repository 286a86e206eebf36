#!/usr/bin/env bash
# Writes the lock file: exact versions with hashes of everything that the package, its extras and its tools need.
# Usage: scripts/lock.sh REQUIREMENT_OF_UV LOCK_FILE [options for uv, such as --upgrade]
set -euo pipefail
uv=$1 lock=$2
shift 2

python=$(scripts/preflight.sh)
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
"$python" -m venv "$tools"
"$tools/bin/pip" install --quiet --disable-pip-version-check "$uv"

cp "$lock" "$tools/lock.txt" 2>/dev/null || true # its versions stay unless --upgrade is given
"$tools/bin/uv" pip compile pyproject.toml --all-extras --python "$tools/bin/python" --quiet \
    --generate-hashes --no-header --no-emit-index-url --no-emit-find-links "$@" --output-file "$tools/lock.txt"
{
    printf '%s\n' "# Made by \`make lock\` from pyproject.toml, with the extras spark and dev. Don't edit."
    cat "$tools/lock.txt"
} >"$tools/new.txt"
if grep -nE '://|(^|[[:space:]])/' "$tools/new.txt"; then
    echo "lock: the lines above name a host or a path of this machine" >&2
    exit 1
fi
mkdir -p "$(dirname "$lock")"
cmp -s "$tools/new.txt" "$lock" || mv "$tools/new.txt" "$lock"
