#!/usr/bin/env bash
# The Metal driver on Linux, and the Metal device on it:
#
#     scripts/metal-driver.sh test                 the driver's own tests
#     scripts/metal-driver.sh device               the device's tests: failures, order, lifetime, units
#     scripts/metal-driver.sh conformance [K/N]    the suite on the device, or the K-th of N parts
#     scripts/metal-driver.sh nodes [K/N]          ONNX's own tests on the device, or the K-th of N parts
#     scripts/metal-driver.sh random [COUNT]       cases that nobody thought of, 1000 unless given
#     scripts/metal-driver.sh stress [THREADS…]    stress scenarios on the device, 8 threads unless given
#     scripts/metal-driver.sh tsan                 under ThreadSanitizer: the device's tests of order, some of the suite and of the stress
#                                                  scenarios, and the driver's tests of races, with a planted mistake at a time, each of
#                                                  which it must notice
#     scripts/metal-driver.sh coverage             which lines of crates/metal the device's tests run; fails below 95 %
#     scripts/metal-driver.sh share                our own share of a replayed call beside that of the CUDA device; fails above 1.5 times
#     scripts/metal-driver.sh ci                   what CI runs: test, device, a tenth of the suite and of ONNX's tests (another one every day,
#                                                  or the one that MILLSTREAM_CONFORMANCE_PART names), 20 random cases
#     scripts/metal-driver.sh full                 the same at length: 20 seeds, 100 exits, the whole suite, all of ONNX's tests, 1000 random
#                                                  cases, stress with 8 to 256 threads, coverage, our own share, and changes that must be noticed
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
bash scripts/metal-bindings.sh
cd crates/metal/driver

plain() {
    cargo fmt --all --check
    cargo clippy --quiet -p millstream-metal-driver --all-targets -- -D warnings
    cargo test --quiet -p millstream-metal-driver
}

device() { cargo test --quiet -p millstream-on-driver --test unit --test device; }

conformance() {
    MILLSTREAM_CONFORMANCE_PART="${1:-1/1}" cargo test -p millstream-on-driver --test conformance -- --nocapture the_metal_device_conforms
}

nodes() {
    local folder
    folder=$(python3 "$root/crates/onnx/tests/node_tests/export.py")
    MILLSTREAM_NODE_TESTS=$folder MILLSTREAM_NODE_TESTS_PART="${1:-1/1}" cargo test -p millstream-on-driver --test node_tests -- --nocapture
}

random() { MILLSTREAM_METAL_RANDOM="${1:-1000}" cargo test -p millstream-on-driver --test conformance random_cases; }

# A part at a time, so that a process does not hold the kernels of all.
whole_suite() {
    local part
    for part in 1 2 3 4 5 6 7 8 9 10; do conformance "$part/10"; done
}

# The program fails if a result differs, a rule of Metal's was broken, or objects are left.
stress() {
    local threads iterations
    # Built as for the tests: with other features everything would be built twice.
    cargo test --quiet --no-run -p millstream-on-driver
    for threads in "${@:-8}"; do
        # Kernels run on the CPU here, and are compiled meanwhile: few calls a thread, and deadlines that a busy machine keeps.
        iterations=$((threads < 16 ? 5 : threads < 128 ? 2 : 1))
        MILLSTREAM_WAIT_TIMEOUT_MS=900000 target/debug/millstream stress --device metal --small --threads "$threads" --iterations "$iterations"
    done
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
    watched() { /usr/bin/cargo test --quiet -Zbuild-std --target "$target" "$@"; }
    races() { watched -p millstream-metal-driver --test races; }
    # Two seeds and two threads: each thread of a group is one to the sanitizer, which has room for so many. Not the failures: they
    # are about one thread of the host.
    MILLSTREAM_METAL_SEEDS=2 MILLSTREAM_METAL_THREADS=2 watched -p millstream-on-driver --test device -- order:: indirect:: lifetime::the_65th
    MILLSTREAM_CONFORMANCE_PART=7/1000 watched -p millstream-on-driver --test conformance the_metal_device_conforms
    MILLSTREAM_METAL_RANDOM=10 watched -p millstream-on-driver --test conformance random_cases
    MILLSTREAM_WAIT_TIMEOUT_MS=900000 "$CARGO_TARGET_DIR/$target/debug/millstream" stress --device metal --small --threads 8 --iterations 1 --scenario basic
    races
    local sign="ThreadSanitizer: data race"
    for mistake in unwaited-queue unwaited-result no-barrier no-fence early-reuse early-release; do
        # A buffer that goes too early is no race; it breaks a rule of the driver's.
        [ "$mistake" != early-release ] || sign=BufferReleasedInFlight
        if METAL_DRIVER_RACE=$mistake races >"$log" 2>&1 || ! grep -q "$sign" "$log"; then
            echo "$mistake: not noticed" >&2
            exit 1
        fi
        echo "$mistake: noticed"
    done
}

coverage() {
    local out=target/coverage/profiles name program
    command -v llvm-cov-22 >/dev/null || {
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends llvm-22
    }
    rm -rf "$out" && mkdir -p "$out"
    export CARGO_TARGET_DIR=target/coverage RUSTC_WRAPPER=$root/scripts/metal-coverage/rustc.sh
    # Every test is a process of its own.
    export LLVM_PROFILE_FILE="$PWD/$out/%p-%m.profraw"
    for name in unit device conformance; do
        program=$(cargo test --no-run --message-format=json-render-diagnostics -p millstream-on-driver --test "$name" |
            python3 -c 'import json, sys; print([m["executable"] for m in map(json.loads, sys.stdin) if m.get("executable")][-1])')
        rm -f "$out"/*.profraw
        MILLSTREAM_CONFORMANCE_PART=${1:-7/1000} "$program" --quiet
        llvm-profdata-22 merge -sparse "$out"/*.profraw -o "$out/$name.profdata"
        llvm-cov-22 export --format=lcov --instr-profile "$out/$name.profdata" "$program" >"$out/$name.lcov"
    done
    rm -f "$out"/*.profraw
    "$root/scripts/metal-coverage/report.py" 95 "$out"/*.lcov
}

what=${1:-ci}
[ $# -eq 0 ] || shift
case $what in
    test) plain ;;
    device) device ;;
    conformance) conformance "$@" ;;
    stress) stress "$@" ;;
    tsan) tsan ;;
    coverage) coverage "$@" ;;
    share) cargo bench --quiet -p millstream-share --bench share ;;
    random) random "$@" ;;
    nodes) nodes "$@" ;;
    ci)
        part=${MILLSTREAM_CONFORMANCE_PART:-$((10#$(date +%j) % 10 + 1))/10}
        plain
        device
        conformance "$part"
        nodes "$part"
        random 20
        ;;
    full)
        plain
        MILLSTREAM_METAL_SEEDS=20 MILLSTREAM_METAL_EXITS=100 device
        whole_suite
        nodes
        random 1000
        stress 8 31 64 256
        (coverage)
        cargo bench --quiet -p millstream-share --bench share
        MILLSTREAM_MUTANTS=scripts/mutants/metal bash "$root/scripts/mutants.sh"
        ;;
    *) sed -n '2,/^set/{/^#/p}' "$root/scripts/metal-driver.sh" >&2; exit 2 ;;
esac
