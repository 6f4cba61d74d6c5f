#!/usr/bin/env bash
# Feeds broken files to the readers of files, with AddressSanitizer: `fuzz.sh [SECONDS]`, 60 unless given.
# The flags are those that cargo-fuzz sets, so that nothing beside the compiler is needed; `cargo +nightly
# fuzz run safetensors` in crates/nn does the same.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds="${1:-60}"
target="$(rustc -vV | sed -n 's/^host: //p')"
export CARGO_TARGET_DIR="$(realpath -m "${CARGO_TARGET_DIR:-target}")/fuzz"
export RUSTC_BOOTSTRAP=1
export RUSTFLAGS="--cfg fuzzing -Zsanitizer=address -Cpasses=sancov-module \
-Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
-Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1"

cd crates/nn/fuzz
for name in safetensors; do
    cargo build --release --quiet --target "$target" --bin "$name"
    mkdir -p "corpus/$name" "artifacts/$name"
    # Asking for more memory than the limit in one piece means that a size in a file was believed.
    "$CARGO_TARGET_DIR/$target/release/$name" "corpus/$name" "seeds/$name" -max_total_time="$seconds" \
        -max_len=4096 -timeout=10 -rss_limit_mb=2048 -malloc_limit_mb=512 -dict=dictionary \
        -artifact_prefix="artifacts/$name/" -print_final_stats=1
done
