#!/usr/bin/env bash
# The Metal driver on Linux: scripts/metal-driver.sh [test|tsan|all]. `tsan` also plants a mistake at a time, each of
# which ThreadSanitizer must notice.
set -euo pipefail
cd "$(dirname "$0")/.."
bash scripts/metal-bindings.sh
cd crates/metal/driver

plain() {
    cargo fmt --check
    cargo clippy --quiet --all-targets -- -D warnings
    cargo test --quiet
}

tsan() {
    local target=x86_64-unknown-linux-gnu log=target/races.log mistake
    # Messages and the runtime that answers them are in archives that name each other; GNU's linker wants an order.
    local lld
    lld=$(rustc --print sysroot)/lib/rustlib/$target/bin/gcc-ld/ld.lld
    # As in scripts/tsan.sh: a standard library that is built for it, by the distribution's compiler.
    export PATH="/usr/bin:$PATH" RUSTC_BOOTSTRAP=1 METAL_DRIVER_SANITIZER=thread
    export RUSTFLAGS="-Zsanitizer=thread -Zexternal-clangrt -Clinker=clang-22 -Clink-arg=-fsanitize=thread -Clink-arg=--ld-path=$lld"
    export TSAN_OPTIONS="halt_on_error=0 exitcode=66" CARGO_TARGET_DIR=target/tsan
    races() { /usr/bin/cargo test --quiet -Zbuild-std --target "$target" --test races; }
    races
    for mistake in unwaited-queue unwaited-result no-barrier no-fence; do
        if METAL_DRIVER_RACE=$mistake races >"$log" 2>&1 || ! grep -q "ThreadSanitizer: data race" "$log"; then
            echo "$mistake: not noticed" >&2
            exit 1
        fi
        echo "$mistake: noticed"
    done
}

case ${1:-all} in
    test) plain ;;
    tsan) tsan ;;
    all) plain; tsan ;;
    *) echo "usage: $0 [test|tsan|all]" >&2; exit 2 ;;
esac
