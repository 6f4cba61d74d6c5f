#!/usr/bin/env bash
# Feeds broken files to the readers of files, with AddressSanitizer: `fuzz.sh [SECONDS] [TARGET…]`, 60 for each of all
# targets unless given. The flags are those that cargo-fuzz sets, so that nothing beside the compiler is needed; `cargo +nightly
# fuzz run safetensors` in crates/nn does the same.
#
# | target | what it gets |
# |---|---|
# | `safetensors` | weight files |
# | `bytes` | bytes as ONNX models |
# | `structure` | ONNX models whose nodes, attributes, tensors and types are mutated |
#
# Models begin from ONNX's own tests if those were exported (crates/onnx/tests/node_tests/export.py).
set -euo pipefail
cd "$(dirname "$0")/.."
seconds="${1:-60}"
shift || true
chosen=("$@")
[ ${#chosen[@]} -gt 0 ] || chosen=(safetensors bytes structure)
root="$PWD"
target="$(rustc -vV | sed -n 's/^host: //p')"
built="$(realpath -m "${CARGO_TARGET_DIR:-target}")"
export CARGO_TARGET_DIR="$built/fuzz"
export RUSTC_BOOTSTRAP=1
export RUSTFLAGS="--cfg fuzzing -Zsanitizer=address -Cpasses=sancov-module \
-Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
-Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1"

for name in "${chosen[@]}"; do
    case "$name" in
    safetensors) folder=crates/nn/fuzz; options=(-max_len=4096 -dict=dictionary) ;;
    bytes | structure) folder=crates/onnx/fuzz; options=(-max_len=8192) ;;
    *) echo "no target is called $name" >&2; exit 2 ;;
    esac
    cd "$root/$folder"
    cargo build --release --quiet --target "$target" --bin "$name"
    seeds="seeds/$name"
    if [ "$folder" = crates/onnx/fuzz ]; then
        seeds="$CARGO_TARGET_DIR/seeds-onnx"
        mkdir -p "$seeds"
        find "$built/onnx-node-tests" "$built/onnx-reference" -name model.onnx -size -8k 2>/dev/null |
            while read -r model; do
                cp -n "$model" "$seeds/$(sha256sum "$model" | cut -c1-16)"
            done
    fi
    mkdir -p "corpus/$name" "artifacts/$name"
    # Asking for more memory than the limit in one piece means that a size in a file was believed.
    "$CARGO_TARGET_DIR/$target/release/$name" "corpus/$name" "$seeds" -max_total_time="$seconds" \
        -timeout=10 -rss_limit_mb=2048 -malloc_limit_mb=512 "${options[@]}" \
        -artifact_prefix="artifacts/$name/" -print_final_stats=1
done
