#!/bin/sh
# Build the wheel of the last commit, and write its SHA-256 beside it: the same bits from the same commit and Python.
#   sh release/wheel.sh PYTHON OUT
# OUT gets the wheel, the versions that were tested with it (constraints.txt), and SHA256SUMS of both. What is not
# committed is not in it, nor what an earlier build has left.
set -eu
if [ $# -ne 2 ]; then
    echo "usage: sh release/wheel.sh PYTHON OUT" >&2
    exit 2
fi
python=$1
mkdir -p "$2"
out=$(cd "$2" && pwd)
root=$(cd "$(dirname "$0")/.." && pwd)
umask 022
source=$(mktemp -d)
trap 'rm -rf "$source"' EXIT
git -C "$root" -c tar.umask=0022 archive HEAD | tar -x --no-same-owner --no-same-permissions -C "$source"
SOURCE_DATE_EPOCH=$(git -C "$root" log -1 --format=%ct)
export SOURCE_DATE_EPOCH
# Into an empty folder first: what lies in OUT from another version is not to be handed out with this one.
"$python" -m pip wheel --disable-pip-version-check -q --no-deps --no-build-isolation --no-cache-dir \
    -w "$source/made" "$source"
cp "$source/constraints.txt" "$source/made/"
rm -f "$out"/fedannot-*.whl "$out/SHA256SUMS"
cp "$source"/made/* "$out/"
cd "$out"
sha256sum fedannot-*.whl constraints.txt > SHA256SUMS
echo "$out, from commit $(git -C "$root" rev-parse HEAD):"
cat SHA256SUMS
