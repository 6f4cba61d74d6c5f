#!/usr/bin/env bash
# AddressSanitizer with its leak check over tests and stress. `asan.sh full` runs everything.
set -euo pipefail
cd "$(dirname "$0")/.."
mode="${1:-quick}"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/asan"
export RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address"
# Tests ask for memory that nobody has, and expect a refusal.
export ASAN_OPTIONS="allocator_may_return_null=1${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
# A target is named so that build scripts and procedural macros are built without the sanitizer.
target="$(rustc -vV | sed -n 's/^host: //p')"

cargo test --target "$target" -p millstream-core --tests
# This test is about threads and memory: with few settings its kernels need not be quick, and optimizing them takes
# minutes. With all settings its waits would reach their deadlines.
slow_kernels=()
if [ "$mode" != full ]; then
    export MILLSTREAM_FEW_SETTINGS=1
    slow_kernels=(--config 'profile.dev.package.millstream-cpu.opt-level=0')
fi
cargo test "${slow_kernels[@]}" --target "$target" -p millstream --no-default-features --test cpu_device
if [ "$mode" = full ]; then
    cargo run --target "$target" -- stress --threads 8
    cargo test --target "$target" -p millstream-cpu --lib
    cargo test --target "$target" -p millstream --test conformance --test fork --test exit
    cargo run --target "$target" -- stress --threads 31
    cargo run --target "$target" -- stress --threads 256
fi
