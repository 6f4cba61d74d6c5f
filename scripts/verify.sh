#!/usr/bin/env bash
# All checks at length: what CI runs, then random schedules, changes that must be noticed, the sanitizers over everything, another
# processor, weakened orderings, broken files, a soak and the runtime bench.
set -euo pipefail
cd "$(dirname "$0")/.."

bash .ci/run
cargo package --workspace --quiet
bash scripts/schedules.sh 10000
bash scripts/mutants.sh
bash scripts/asan.sh full
bash scripts/tsan.sh full
bash scripts/aarch64.sh
bash scripts/weaken.sh
bash scripts/kernels.sh asan
bash scripts/kernels.sh tsan
bash scripts/kernels.sh nvrtc
bash scripts/check-metal.sh
bash scripts/metal-driver.sh full
bash scripts/metal-driver.sh tsan
bash scripts/fuzz.sh 300
MILLSTREAM_IDENTITY_CALLS=1000000 cargo test --release -p millstream-graph --lib every_row_comes_back_to_its_caller
cargo run --release -- stress --scenario soak --iterations 20000
cargo bench --bench runtime
