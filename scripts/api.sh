#!/usr/bin/env bash
# The public interface beside docs/api/millstream.txt: a change of it is seen in review.
#
#     scripts/api.sh            says what differs, and fails if anything does
#     scripts/api.sh --write    writes the file anew
#
# rustdoc's JSON is not stable yet, so the stable rustdoc gets a variable that allows it; api.py knows one version of the format.
# Only rustdoc gets it, so that everything else that is built serves other commands too.
set -euo pipefail
cd "$(dirname "$0")/.."

target="${CARGO_TARGET_DIR:-target}"
listing=docs/api/millstream.txt
mkdir -p "$target/api" "$(dirname "$listing")"
printf '#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec rustdoc "$@"\n' >"$target/api/rustdoc"
chmod +x "$target/api/rustdoc"
for package in millstream-core millstream-nn millstream; do
    RUSTDOC="$(realpath "$target/api/rustdoc")" cargo rustdoc --quiet --package "$package" --lib -- \
        -Z unstable-options --output-format json --cap-lints allow
done
python3 scripts/api.py "$target/doc" >"$target/api/millstream.txt"
if [ "${1:-}" = --write ]; then
    cp "$target/api/millstream.txt" "$listing"
elif ! diff -u "$listing" "$target/api/millstream.txt"; then
    echo "the public interface has changed: look at the lines above, then run scripts/api.sh --write" >&2
    exit 1
fi
