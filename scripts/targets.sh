#!/usr/bin/env bash
# What builds elsewhere: without CUDA, for aarch64 Linux and for aarch64 macOS. Types are checked, nothing is linked.
set -euo pipefail
cd "$(dirname "$0")/.."

export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/targets"
cargo check --quiet --package millstream --no-default-features
for target in aarch64-unknown-linux-gnu aarch64-apple-darwin; do
    rustup target add "$target" 2>/dev/null
    echo "--- $target"
    cargo check --quiet --package millstream --package millstream-cli --target "$target"
done
