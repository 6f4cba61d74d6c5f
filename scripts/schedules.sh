#!/usr/bin/env bash
# Scenarios on both devices while threads lose time at locks and atomics, as seeds say: scripts/schedules.sh
# [SEEDS per scenario], 100 unless given. A failure says how to repeat it; see tests/schedules/harness.rs.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/schedule"
export RUSTFLAGS="--cfg schedule"
export MILLSTREAM_SEEDS="${1:-100}"
status=0
cargo test --test schedules || status=1
cargo test -p millstream-cuda --test schedules || status=1
exit "$status"
