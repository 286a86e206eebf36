#!/usr/bin/env bash
# Installs PostgreSQL 15 from Debian's packages, unless its programs are there. DEMO_POSTGRES_BIN names their folder if
# they were installed in another way.
set -euo pipefail

binaries="${DEMO_POSTGRES_BIN:-/usr/lib/postgresql/15/bin}"
[ ! -x "$binaries/initdb" ] || exit 0

by_hand() {
    printf 'postgres: %s\n' "$@" "On Debian 12, run as root: apt-get install postgresql-15" \
        "Elsewhere, install PostgreSQL 15, and set DEMO_POSTGRES_BIN to the folder of its program initdb." >&2
    exit 1
}

[ -z "${DEMO_POSTGRES_BIN:-}" ] || by_hand "DEMO_POSTGRES_BIN is $binaries, which has no program initdb."
command -v apt-get >/dev/null || by_hand "PostgreSQL 15 is needed, and this machine has no apt-get to install it with."
as_root=()
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null ||
        by_hand "PostgreSQL 15 is needed, and only root can install it; this machine has no sudo."
    as_root=(sudo)
fi

echo "PostgreSQL 15 is missing; installing Debian's package postgresql-15 (a server that the package starts is not used)"
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq)
"${apt[@]}" update || by_hand "apt-get update failed; is the network reachable?"
"${apt[@]}" install --yes --no-install-recommends postgresql-15 || by_hand "Debian's package could not be installed."
[ -x "$binaries/initdb" ] || by_hand "The package was installed, but $binaries has no program initdb."
