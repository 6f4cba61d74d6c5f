#!/usr/bin/env bash
# Everything about the Metal device that a Linux machine can show, in minutes: types and lints for macOS, the texts of all kernels
# against a strict library, the driver, and the device's tests on it. Installs what it needs. The last line is the result.
set -euo pipefail
cd "$(dirname "$0")/.."

step=types
trap 'echo "metal: FAILED at $step (${SECONDS}s)"' ERR
bash scripts/install-tools.sh
rustup target add aarch64-apple-darwin 2>/dev/null
cargo clippy --quiet -p millstream-metal -p millstream-gpu --target aarch64-apple-darwin -- -D warnings
cargo check --quiet -p millstream -p millstream-cli --target aarch64-apple-darwin
step=texts
bash scripts/kernels.sh metal
step=driver
bash scripts/metal-driver.sh ci
trap - ERR
echo "metal: passed in ${SECONDS}s; executed on the driver in crates/metal/driver, not on a Mac"
