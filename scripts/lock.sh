#!/usr/bin/env bash
# Writes the lock file: exact versions with hashes of everything that the package, its extras and its tools need. Also
# writes the lowest set: the same, but the package's own dependencies have the lowest versions that pyproject.toml allows.
# Usage: scripts/lock.sh REQUIREMENT_OF_UV LOCK_FILE LOWEST_FILE [options for uv, such as --upgrade]
set -euo pipefail
uv=$1 lock=$2 lowest=$3
shift 3

python=$(scripts/preflight.sh)
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
"$python" -m venv "$tools"
"$tools/bin/pip" install --quiet --disable-pip-version-check "$uv"

# compile FILE [options]: keeps the versions in FILE where possible.
compile() {
    local file=$1
    shift
    "$tools/bin/uv" pip compile pyproject.toml --all-extras --python "$tools/bin/python" --quiet \
        --generate-hashes --no-header --no-emit-index-url --no-emit-find-links "$@" --output-file "$file"
}

# put FILE TARGET COMMENT: replaces the repository's file, unless nothing changed.
put() {
    { printf '%s\n' "# Made by \`make lock\` from pyproject.toml, $3. Don't edit." && cat "$1"; } >"$1.new"
    if grep -nE '://|(^|[[:space:]])/' "$1.new"; then
        echo "lock: the lines above name a host or a path of this machine" >&2
        exit 1
    fi
    mkdir -p "$(dirname "$2")"
    cmp -s "$1.new" "$2" || mv "$1.new" "$2"
}

cp "$lock" "$tools/lock.txt" 2>/dev/null || true # its versions stay unless --upgrade is given
compile "$tools/lock.txt" "$@"
"$python" scripts/lowest_wishes.py "$tools/lock.txt" >"$tools/lowest.txt"
compile "$tools/lowest.txt" --resolution lowest-direct

put "$tools/lock.txt" "$lock" "with the extras spark and dev"
put "$tools/lowest.txt" "$lowest" "with the lowest versions that it allows for the package's own dependencies"
