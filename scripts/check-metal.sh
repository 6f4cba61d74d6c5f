#!/usr/bin/env bash
# Everything about the Metal device that a Linux machine can show, in minutes: types, lints and linked programs for macOS, the texts of
# all kernels against a strict library, the driver, and the device's tests on it. Installs what it needs. The last line is the
# result. CI runs it.
set -euo pipefail
cd "$(dirname "$0")/.."

step=tools
trap 'echo "metal: FAILED at $step (${SECONDS}s)"' ERR
bash scripts/install-tools.sh
step="types, lints and links for macOS"
bash scripts/macos-link.sh
step=texts
bash scripts/kernels.sh metal
step=driver
bash scripts/metal-driver.sh ci
trap - ERR
echo "metal: passed in ${SECONDS}s; executed on the driver in crates/metal/driver, not on a Mac"
