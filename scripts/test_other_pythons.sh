#!/usr/bin/env bash
# Runs the fast tests and the tests marked `smoke` on each supported Python other than that of .venv, in an environment of
# its own, .venv-VERSION. Says so where this machine lacks one.
# Usage: scripts/test_other_pythons.sh VERSION_OF_VENV VERSION...
set -euo pipefail
own=$1
shift

# A Python on the PATH, or of pyenv, whose shims on the PATH refuse a version that is not chosen.
find_python() {
    local candidate
    for candidate in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/python; do
        if "$candidate" -c 'import ensurepip, venv' >/dev/null 2>&1; then
            printf '%s\n' "$candidate"
            return
        fi
    done
}

for version in "$@"; do
    [ "$version" != "$own" ] || continue
    python=$(find_python "$version")
    if [ -z "$python" ]; then
        echo "NOT TESTED: Python $version, because this machine has none; the tests ran on Python $own"
        continue
    fi
    echo "Python $version: the fast tests and the smoke tests"
    PYTHON=$python make --no-print-directory VENV=".venv-$version" PYTHON_VERSION="$version" test-fast test-smoke
done
