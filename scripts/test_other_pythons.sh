#!/usr/bin/env bash
# Runs the fast tests and the tests marked `smoke` on each supported Python other than that of .venv, in an environment of
# its own, .venv-VERSION. Says so where this machine lacks one. A Python that fails does not keep the others from running.
# With MINUTES, no Python begins later than so many minutes from now: a server ends what takes too long.
# Usage: [MINUTES=...] scripts/test_other_pythons.sh VENV VERSION_OF_VENV VERSION...
set -euo pipefail
own_venv=$1 own=$2
shift 2

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

# Jars are the same for each Python, and take longer than its packages.
share_jars() {
    mkdir -p "$1/share"
    [ -e "$1/share/airflow-backfill" ] || ln -s "$(realpath "$own_venv")/share/airflow-backfill" "$1/share/airflow-backfill"
}

failed=()
for version in "$@"; do
    [ "$version" != "$own" ] || continue
    python=$(find_python "$version")
    if [ -z "$python" ]; then
        echo "NOT TESTED: Python $version, because this machine has none; the tests ran on Python $own"
        continue
    fi
    if [ -n "${MINUTES:-}" ] && [ "$SECONDS" -ge $((60 * MINUTES)) ]; then
        echo "NOT TESTED: Python $version, because there is no time left; the tests ran on Python $own"
        continue
    fi
    venv=$own_venv-$version
    share_jars "$venv"
    on_it=(make --no-print-directory VENV="$venv" PYTHON_VERSION="$version")
    echo "Python $version: the fast tests and the smoke tests"
    if ! PYTHON=$python "${on_it[@]}" install; then
        failed+=("Python $version: its packages could not be installed into $venv; see above")
    elif ! PYTHON=$python "${on_it[@]}" test-fast test-smoke; then
        failed+=("Python $version: a test failed; see above")
    fi
done

[ "${#failed[@]}" -eq 0 ] || printf 'FAILED: %s\n' "${failed[@]}" >&2
exit $((${#failed[@]} > 0))
