#!/usr/bin/env bash
# ThreadSanitizer over tests and stress, with a standard library built for it: without that it reports
# races that do not exist. `tsan.sh full` runs everything, and then a test with a race planted, which must
# be noticed. (Not the fork test: the sanitizer does not allow it.)
set -euo pipefail
cd "$(dirname "$0")/.."
mode="${1:-quick}"
target=x86_64-unknown-linux-gnu
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/tsan"
# The distribution's compiler and library sources are of one release, which the rebuild needs.
export PATH="/usr/bin:$PATH" RUSTC_BOOTSTRAP=1
export RUSTFLAGS="-Zsanitizer=thread -Zexternal-clangrt -Clinker=clang-22 -Clink-arg=-fsanitize=thread"
# Tests ask for memory that nobody has, and expect a refusal.
export TSAN_OPTIONS="halt_on_error=0 exitcode=66 allocator_may_return_null=1"
tsan() { /usr/bin/cargo "$1" -Zbuild-std --target "$target" "${@:2}"; }

tsan test -p millstream-core --tests
# This test is about threads: with few settings its kernels need not be quick, and optimizing them takes minutes. With
# all settings its waits would reach their deadlines. Other devices are not built for it.
slow_kernels=()
if [ "$mode" = quick ]; then
    export MILLSTREAM_FEW_SETTINGS=1
    slow_kernels=(--config 'profile.dev.package.millstream-cpu.opt-level=0')
fi
tsan test "${slow_kernels[@]}" -p millstream --no-default-features --test cpu_device
if [ "$mode" = quick ]; then
    exit 0
fi
tsan run -p millstream-cli -- stress --threads 8
tsan test -p millstream-cpu --lib
tsan test -p millstream --test conformance
tsan run -p millstream-cli -- stress --threads 31
tsan run -p millstream-cli -- stress --threads 256

echo "planted race: ThreadSanitizer must notice it"
log="$CARGO_TARGET_DIR/planted.log"
# Most waits take a lock that hides it; asking without waiting does not.
if RUSTFLAGS="$RUSTFLAGS --cfg planted_race" CARGO_TARGET_DIR="$CARGO_TARGET_DIR/planted" \
    tsan test -p millstream --test cpu_device asking_until >"$log" 2>&1; then
    echo "error: the test passed with the planted race" >&2
    exit 1
fi
grep -q "WARNING: ThreadSanitizer: data race" "$log" || { tail -50 "$log"; exit 1; }
echo "planted race: noticed"
