#!/usr/bin/env bash
# Spelling in code, comments and pages, by typos.toml.
set -euo pipefail
cd "$(dirname "$0")/.."

tools="${CARGO_TARGET_DIR:-target}/tools/typos"
if [ ! -x "$tools/bin/typos" ]; then
    python3 -m venv "$tools"
    "$tools/bin/pip" install --quiet --disable-pip-version-check typos==1.51.1
fi
"$tools/bin/typos" --format brief
