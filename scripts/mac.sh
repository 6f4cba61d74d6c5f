#!/usr/bin/env bash
# For anyone with a Mac: what the Metal device does there. It was never run on one by us, so every answer is news.
#
#     bash scripts/mac.sh                     about an hour on a laptop
#     bash scripts/mac.sh --quick             ten minutes: a tenth of the suite, shorter measurements
#     bash scripts/mac.sh --driver [--quick]  on Linux, on the driver in crates/metal/driver, with everything cut down: to try this script
#     bash scripts/mac.sh --no-install        PyTorch, MLX and candle only where they are there
#     bash scripts/mac.sh --faults            also what makes the GPU fail on purpose; other programs may notice
#
# Needs Apple silicon, macOS 13 or later, Rust (rustup.rs) and Xcode's command line tools (`xcode-select --install`). Compiling the
# texts ahead needs Xcode itself, and is skipped without. PyTorch and MLX are installed under target/, nothing is changed elsewhere, and
# nothing is sent anywhere. A step that fails or takes too long stops nothing: it is in the report. target/mac/report.md is the
# page to read, and target/millstream-mac.tar.gz has everything.
set -uo pipefail
cd "$(dirname "$0")/.."

quick=0 driver=0 faults=0 install=--install
for argument in "$@"; do
    case $argument in
        --quick) quick=1 ;;
        --driver) driver=1 ;;
        --faults) faults=1 ;;
        --no-install) install= ;;
        *) sed -n '2,/^set/{/^#/p;}' "$0" >&2; exit 2 ;;
    esac
done
if [ $driver = 0 ] && [ "$(uname -s)" != Darwin ]; then
    echo "this is for a Mac; on Linux, --driver tries it on a driver of our own, and scripts/check-metal.sh is what to run" >&2
    exit 2
fi

out=target/mac
rm -rf "$out"
mkdir -p "$out"
program=target/release/millstream
threads="1 8 31 64" seconds=2 rounds=3 exits=100 part=1/1 validated_part=5/50 idle=60 deadline=120
stress_options="" workloads="mm mlp mlp-large conv1d encoder"
if [ $quick = 1 ]; then
    seconds=0.5 rounds=1 exits=25 part=3/10 validated_part=5/200 idle=10
    stress_options="--iterations 3"
fi
if [ $driver = 1 ]; then
    program=crates/metal/driver/target/debug/millstream
    threads="1 8" seconds=0.2 rounds=1 exits=5 part=7/100 validated_part=11/200 idle=1 deadline=12 install="" workloads="mlp"
    stress_options="--small --iterations 1"
    export MILLSTREAM_WAIT_TIMEOUT_MS=600000
    if [ $quick = 1 ]; then
        exits=2 part=7/400 validated_part=11/1000
        stress_options="--small --iterations 1 --scenario basic"
        export MILLSTREAM_KERNELS_KINDS=fill,unary,matmul
    fi
fi

# limited SECONDS COMMAND…: a step that takes longer is ended, with all that it started. macOS has no `timeout`.
limited() {
    local limit=$1 end pid
    shift
    end=$((SECONDS + limit))
    set -m
    "$@" &
    pid=$!
    set +m
    while kill -0 "$pid" 2>/dev/null; do
        if [ $SECONDS -ge $end ]; then
            echo "ended after $limit seconds"
            kill -TERM -- "-$pid" 2>/dev/null
            sleep 2
            kill -KILL -- "-$pid" 2>/dev/null
            return 124
        fi
        sleep 0.2
    done
    wait "$pid"
}

# step NAME LIMIT COMMAND…: its output goes to NAME.log, a line of the result to steps.tsv. Status 77 means skipped.
step() {
    local name=$1 limit=$2 start=$SECONDS result=passed words="" status
    shift 2
    echo "--- $name"
    limited "$limit" "$@" >"$out/$name.log" 2>&1
    status=$?
    if [ $status -ne 0 ]; then
        words=$(tail -n 1 "$out/$name.log" | tr '\t|' '  ' | cut -c 1-200)
        result=FAILED
        [ $status -ne 77 ] || result=skipped
        echo "$result: $words"
    fi
    printf '%s\t%s\t%s\t%s\n' "$name" "$result" $((SECONDS - start)) "$words" >>"$out/steps.tsv"
}
skip() { echo "$1"; return 77; }
on_driver() { [ $driver = 1 ]; }

about() {
    local where
    if on_driver; then
        where="**On a driver of our own on Linux, not on a Mac: this shows that the script works, and no speed.** $(uname -sm)"
    else
        where="$(sysctl -n machdep.cpu.brand_string), $(sysctl -n hw.memsize | awk '{ print $1 / 1073741824 }') GiB, macOS $(sw_vers -productVersion)"
    fi
    printf '%s; %s, commit %s%s\n' "$where" "$(date -u +%Y-%m-%d)" "$(git rev-parse --short HEAD 2>/dev/null || echo unknown)" \
        "$([ $quick = 0 ] || echo ', --quick')"
}
machine() {
    rustc --version
    if on_driver; then
        uname -a && clang-22 --version
    else
        sw_vers && sysctl -n machdep.cpu.brand_string hw.memsize && system_profiler SPDisplaysDataType
        xcodebuild -version || true
    fi
}
build() {
    if on_driver; then
        # Built as for the tests: with other features everything would be built twice.
        bash scripts/metal-bindings.sh && (cd crates/metal/driver && cargo test --quiet --no-run -p millstream-on-driver) || return 1
    else
        cargo build --release --package millstream-cli || return 1
    fi
    "$program" devices
}
# Every kernel of the suite through Apple's compiler. Needs Xcode: the command line tools alone have no `metal`.
texts() {
    if on_driver; then
        bash scripts/kernels.sh metal
        return
    fi
    xcrun --find metal || { skip "there is no xcrun metal without Xcode"; return; }
    local file standard standards=() bad=0
    # Many kernels in a file, as the device compiles them.
    cargo run --release --quiet -p millstream-kernels --example sources -- "$out/texts" metal 40 || return 1
    # In each language that the device asks for: 3.0 on macOS 13, 3.1 on 14, 3.2 from 15 on. Older compilers do not know the newer ones.
    : >"$out/empty.metal"
    for standard in metal3.0 metal3.1 metal3.2; do
        if xcrun metal -c -std=$standard "$out/empty.metal" -o /dev/null; then
            standards+=("$standard")
        else
            echo "this compiler does not know $standard here"
        fi
    done
    rm "$out/empty.metal"
    [ ${#standards[@]} -gt 0 ] || { echo "it takes an empty text in none of them"; return 1; }
    for standard in "${standards[@]}"; do
        for file in "$out"/texts/*.metal; do
            xcrun metal -c -std="$standard" -fno-fast-math "$file" -o /dev/null || { echo "refused as $standard: $file"; bad=1; }
        done
        echo "compiled as $standard"
    done
    [ $bad = 1 ] || rm -rf "$out/texts"
    return $bad
}
probe() { "$program" probe --device metal --idle $idle --json >"$out/probe.json"; }
# A process of its own: a device that fails may take the process with it.
probe_faults() {
    [ $faults = 1 ] || on_driver || { skip "it makes the GPU fail: --faults runs it"; return; }
    METAL_DRIVER_WATCHDOG_MS=2000 "$program" probe --device metal --faults --row failed-buffer --row long-wait --idle 1 --deadline $deadline --json \
        >"$out/probe-faults.json"
}
# Both as people read it.
probe_log() {
    python3 - "$out" <<'P'
import json, pathlib, sys
for name in ["probe.json", "probe-faults.json"]:
    path = pathlib.Path(sys.argv[1], name)
    if path.exists() and path.stat().st_size:
        for row in json.loads(path.read_text())["rows"]:
            print(f"{row['name']}: {row['outcome']} ({row['seconds']:.2f} s)\n    assumed: {row['assumed'] or '-'}\n    found: {row['found']}")
P
}
tests() {
    if on_driver; then
        (cd crates/metal/driver && cargo test --quiet -p millstream-on-driver --test unit --test device -- $([ $quick = 0 ] || echo failures:: settings))
    else
        cargo test --release --quiet -p millstream-core -p millstream-gpu -p millstream-kernels -p millstream-metal --lib
    fi
}
suite() {
    export MILLSTREAM_CONFORMANCE_PART=$1
    if on_driver; then
        (cd crates/metal/driver && cargo test -p millstream-on-driver --test conformance -- --nocapture)
    else
        MILLSTREAM_REQUIRE_METAL=1 cargo test --release --test conformance -- --nocapture metal
    fi
}
# With Metal's own checks of calls and shaders. The driver has its checks on always; there it loses time by a seed.
validated() { export MTL_DEBUG_LAYER=1 MTL_SHADER_VALIDATION=1 METAL_DRIVER_SEED=3; "$@"; }
# shellcheck disable=SC2086 # a list of words
stress() { "$program" stress --device metal --threads "$1" $stress_options; }
# Many processes, each of which ends while its device is warm.
exits() {
    local run
    for run in $(seq 1 "$exits"); do
        "$program" bench --device metal --workload mlp --threads 4 --seconds 0.1 >/dev/null || { echo "run $run of $exits"; return 1; }
    done
    echo "$exits of $exits ended as they should"
}
leaks_at_exit() {
    command -v leaks >/dev/null || { skip "leaks is a program of macOS; objects left on the driver are a test of scripts/metal-driver.sh"; return; }
    MallocStackLogging=lite leaks --atExit -- "$program" stress --device metal --threads 8 --scenario basic --iterations 3
}
# shellcheck disable=SC2086 # lists of words
bench() {
    python3 bench/metal/compare.py --program "$program" --out "$out" --rounds $rounds --seconds $seconds --threads $threads \
        --workload $workloads $install $(on_driver && echo --no-product)
}
trace() {
    if on_driver; then
        "$program" trace --device metal --workload mlp --threads 2 --calls 2 -o "$out/trace.json"
    else
        "$program" trace --device metal --workload encoder --threads 8 -o "$out/trace.json"
    fi
}

about >"$out/about.txt"
step machine 60 machine
step build 3600 build
step texts 1800 texts
step probe 900 probe
step probe-faults 300 probe_faults
step tests 1800 tests
step suite 3600 suite "$part"
step suite-validated 1800 validated suite "$validated_part"
for count in 8 31 64 256; do
    step "stress-$count" 1800 stress "$count"
done
step stress-validated 1800 validated stress 8
step exits 1200 exits
step leaks 600 leaks_at_exit
step bench 3600 bench
step trace 300 trace
probe_log >"$out/probe.log"
python3 scripts/mac_report.py "$out"
tar czf target/millstream-mac.tar.gz -C target mac
failed=$(grep -c "$(printf '\tFAILED\t')" "$out/steps.tsv")
echo "=== $failed of $(grep -c . "$out/steps.tsv") steps failed in ${SECONDS}s. $out/report.md is the page to read; target/millstream-mac.tar.gz has everything."
[ "$failed" = 0 ]
