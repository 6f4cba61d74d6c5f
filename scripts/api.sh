#!/usr/bin/env bash
# The public interface beside docs/api/millstream.txt: a change of it is seen in review.
#
#     scripts/api.sh            says what differs, and fails if anything does
#     scripts/api.sh --write    writes the file anew
#
# rustdoc's JSON is not stable yet, so the stable compiler is asked for it with RUSTC_BOOTSTRAP; api.py knows one
# version of its format.
set -euo pipefail
cd "$(dirname "$0")/.."

target="${CARGO_TARGET_DIR:-target}/api"
listing=docs/api/millstream.txt
for package in millstream-core millstream-nn millstream; do
    RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR="$target" cargo rustdoc --quiet --package "$package" --lib -- \
        -Z unstable-options --output-format json --cap-lints allow
done
python3 scripts/api.py "$target/doc" >"$target/millstream.txt"
if [ "${1:-}" = --write ]; then
    mkdir -p "$(dirname "$listing")"
    cp "$target/millstream.txt" "$listing"
elif ! diff -u "$listing" "$target/millstream.txt"; then
    echo "the public interface has changed: look at the lines above, then run scripts/api.sh --write" >&2
    exit 1
fi
