#!/usr/bin/env bash
# Checks for what `make install` needs but cannot install: Python 3.11, 3.12 or 3.13 with venv, and Java 17 or newer.
# Prints the Python to use; prints on stderr what is missing and how to install it. PYTHON names another one to try first.
set -euo pipefail

fail() {
    printf 'install: %s\n' "$@" >&2
    exit 1
}

python=""
for candidate in ${PYTHON:+"$PYTHON"} python3.11 python3 python3.12 python3.13 python; do
    if "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' >/dev/null 2>&1; then
        python="$candidate"
        break
    fi
done
[ -n "$python" ] || fail "Python 3.11, 3.12 or 3.13 is needed, and was not found." \
    "On Debian 12: apt-get install python3.11 python3.11-venv"
"$python" -c 'import ensurepip, venv' >/dev/null 2>&1 || fail "$python cannot make virtual environments." \
    "On Debian 12: apt-get install python3-venv"

java="${JAVA_HOME:+$JAVA_HOME/bin/}java" # Spark also prefers JAVA_HOME to the PATH
version=$("$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1) || version=""
[ -n "$version" ] || fail "Java 17 or newer is needed by Spark, and \"$java\" does not run." \
    "On Debian 12: apt-get install openjdk-17-jre-headless (and unset JAVA_HOME if it points elsewhere)"
[ "$version" -ge 17 ] || fail "Java 17 or newer is needed by Spark; \"$java\" is Java $version." \
    "On Debian 12: apt-get install openjdk-17-jre-headless, and let JAVA_HOME or PATH point to it"

printf '%s\n' "$python"
