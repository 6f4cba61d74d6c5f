#!/usr/bin/env bash
# What builds elsewhere: without CUDA, and for aarch64 Linux. Types are checked, nothing is linked. scripts/macos-link.sh is about macOS.
set -euo pipefail
cd "$(dirname "$0")/.."

# A constant that only one architecture uses is dead code on the others.
export RUSTFLAGS="-D warnings"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/targets"
cargo check --quiet --package millstream --no-default-features
target=aarch64-unknown-linux-gnu
rustup target add "$target" 2>/dev/null
cargo check --quiet --package millstream --package millstream-cli --target "$target"
