#!/usr/bin/env bash
# Writes the files in constraints/, for each Python:
# - python-VERSION.txt, the lock file: exact versions with hashes of everything that the package, its extras and its
#   tools need;
# - runtime-python-VERSION.txt: the same versions of what users install, without hashes, as pip wants constraints.
# For the oldest Python it also writes lowest-python-VERSION.txt: the package's own dependencies have the lowest versions
# that pyproject.toml allows.
# Usage: scripts/lock.sh REQUIREMENT_OF_UV "VERSION..." [options for uv, such as --upgrade]
set -euo pipefail
uv=$1 oldest=${2%% *}
read -ra versions <<<"$2"
shift 2

python=$(scripts/preflight.sh)
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
"$python" -m venv "$tools"
"$tools/bin/pip" install --quiet --disable-pip-version-check "$uv"

# compile VERSION FILE [options]: keeps the versions in FILE where possible.
compile() {
    local version=$1 file=$2
    shift 2
    "$tools/bin/uv" pip compile pyproject.toml --all-extras --python "$tools/bin/python" --python-version "$version" \
        --quiet --no-header --no-emit-index-url --no-emit-find-links "$@" --output-file "$file"
}

# put FILE TARGET COMMENT: replaces the repository's file, unless nothing changed.
put() {
    { printf '%s\n' "# Made by \`make lock\` from pyproject.toml, $3. Don't edit." && cat "$1"; } >"$1.new"
    if grep -nE '://|(^|[[:space:]])/' "$1.new"; then
        echo "lock: the lines above name a host or a path of this machine" >&2
        exit 1
    fi
    mkdir -p constraints
    cmp -s "$1.new" "constraints/$2" || mv "$1.new" "constraints/$2"
}

for version in "${versions[@]}"; do
    locked=$tools/python-$version.txt
    # The versions so far stay unless --upgrade is given, and a new Python gets those of the oldest one.
    cp "constraints/python-$version.txt" "$locked" 2>/dev/null || cp "constraints/python-$oldest.txt" "$locked" || true
    compile "$version" "$locked" --group dev --group docs --generate-hashes "$@"
    put "$locked" "python-$version.txt" "with all extras and groups"

    runtime=$tools/runtime-$version.txt
    compile "$version" "$runtime" --constraints "$locked" --no-annotate
    put "$runtime" "runtime-python-$version.txt" "with all extras, for pip's option --constraint"
done

lowest=$tools/lowest.txt
"$python" scripts/lowest_wishes.py "$tools/python-$oldest.txt" >"$lowest"
compile "$oldest" "$lowest" --group dev --group docs --generate-hashes --resolution lowest-direct
put "$lowest" "lowest-python-$oldest.txt" "with the lowest versions that it allows for the package's own dependencies"
