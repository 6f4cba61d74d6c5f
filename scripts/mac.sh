#!/usr/bin/env bash
# For anyone with a Mac: what the Metal device does there. It was never run on one by us, so every answer is news.
#
#     bash scripts/mac.sh            about an hour on a laptop
#     bash scripts/mac.sh --quick    a tenth of the suite and shorter measurements
#
# Needs Apple silicon, macOS 13 or later, Rust (rustup.rs) and Xcode's command line tools (`xcode-select --install`); compiling the texts
# ahead needs Xcode itself, and is skipped without. Nothing is installed and nothing is sent anywhere. A step that fails stops
# nothing: it is in the report. The report is target/mac/report.md, and everything else lies beside it in one archive.
set -uo pipefail
cd "$(dirname "$0")/.."

quick=0
case ${1:-} in
    --quick) quick=1 ;;
    "") ;;
    *) sed -n '2,/^set/{/^#/p}' "$0" >&2; exit 2 ;;
esac
if [ "$(uname -s)" != Darwin ]; then
    echo "this is for a Mac; on Linux, scripts/check-metal.sh runs the device on a driver of its own" >&2
    exit 2
fi

out=target/mac
rm -rf "$out"
mkdir -p "$out"
report=$out/report.md
failed=0
printf '# The Metal device on a Mac\n\n%s, commit %s\n\n| step | result | seconds | log |\n|---|---|---|---|\n' \
    "$(date -u +%Y-%m-%d)" "$(git rev-parse --short HEAD 2>/dev/null || echo unknown)" >"$report"

# step NAME COMMAND…: its output goes to NAME.log, a line of the result to the report.
step() {
    local name=$1 start=$SECONDS result=passed
    shift
    echo "--- $name"
    if ! "$@" >"$out/$name.log" 2>&1; then
        result=FAILED
        failed=$((failed + 1))
        tail -n 5 "$out/$name.log"
    fi
    printf '| %s | %s | %s | %s.log |\n' "$name" "$result" $((SECONDS - start)) "$name" >>"$report"
}

machine() {
    sw_vers && sysctl -n machdep.cpu.brand_string hw.memsize && xcodebuild -version
    system_profiler SPDisplaysDataType
    rustc --version
}
build() { cargo build --release --package millstream-cli && target/release/millstream devices; }
# Every kernel of the suite through Apple's compiler. Needs Xcode: the command line tools alone have no `metal`.
texts() {
    xcrun --find metal || { echo "skipped: there is no xcrun metal without Xcode"; return 0; }
    local file bad=0
    cargo run --release --quiet -p millstream-kernels --example sources -- "$out/texts" metal || return 1
    for file in "$out"/texts/*.metal; do
        xcrun metal -c -std=metal3.0 -fno-fast-math "$file" -o /dev/null || { echo "refused: $file"; bad=1; }
    done
    return $bad
}
suite() { MILLSTREAM_REQUIRE_METAL=1 cargo test --release --test conformance -- --nocapture metal; }
validated() { env MTL_DEBUG_LAYER=1 MTL_SHADER_VALIDATION=1 "$@"; }
stress() { target/release/millstream stress --device metal --threads "$1"; }
# A hundred processes, each of which ends while its device is warm.
processes() {
    local run
    for run in $(seq 1 100); do
        target/release/millstream bench --device metal --workload mlp --threads 8 --seconds 0.2 >/dev/null || { echo "run $run"; return 1; }
    done
}
bench() { target/release/millstream bench --device metal --seconds "$1"; }
trace() { target/release/millstream trace --device metal --workload encoder --threads 8 -o "$out/trace.json"; }

if [ $quick = 1 ]; then
    export MILLSTREAM_CONFORMANCE_PART=3/10
fi
step machine machine
step build build
step texts texts
step suite suite
step suite-validated validated env MILLSTREAM_CONFORMANCE_PART=5/50 bash -c "$(declare -f suite); suite"
for threads in 8 31 64 256; do
    [ $quick = 0 ] || [ "$threads" != 256 ] || continue
    step "stress-$threads" stress "$threads"
done
step stress-validated validated target/release/millstream stress --device metal --threads 8
[ $quick = 1 ] || step processes processes
step bench bench $((quick ? 1 : 5))
step trace trace
{
    printf '\n## Speed\n\n```\n'
    cat "$out/bench.log"
    printf '```\n\nGoals for an M4 Max, `mlp` of batch 1: 8,000 calls/s from one thread, 30,000 from eight, and from 31 and 64 threads at least 90 %% of the best.\n'
} >>"$report"
tar czf target/millstream-mac.tar.gz -C target mac
echo "=== $failed steps failed. $report is the page to read; target/millstream-mac.tar.gz has everything."
[ $failed = 0 ]
