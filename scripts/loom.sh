#!/usr/bin/env bash
# Every interleaving of the lock-free parts, within loom's bounds; then the same with a race planted,
# which must be noticed.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/loom"

# Kernels have no part in this and would take minutes to optimize.
RUSTFLAGS="--cfg loom" cargo test --release --config 'profile.release.package.millstream-cpu.opt-level=0' \
    --lib -p millstream-core -p millstream-cpu -p millstream-gpu -p millstream-graph loom_

echo "planted race: loom must notice it"
# One test each for a wait, for memory that is used again, and for memory that is checked out.
for test in loom_waits_see loom_a_block_is_written_again loom_a_checkout_is_handed_on; do
    if RUSTFLAGS="--cfg loom --cfg planted_race" \
        cargo test --release --lib -p millstream-core "$test" >"$CARGO_TARGET_DIR/planted.log" 2>&1; then
        echo "error: $test passed with the planted race" >&2
        exit 1
    fi
    # A build that failed must not count as a race that was noticed.
    grep -q "test result: FAILED" "$CARGO_TARGET_DIR/planted.log" || { cat "$CARGO_TARGET_DIR/planted.log"; exit 1; }
done
echo "planted race: noticed"
