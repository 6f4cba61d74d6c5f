#!/usr/bin/env bash
# What only a machine with an NVIDIA GPU can show: scripts/gpu.sh [suite|device|memcheck|racecheck|stress|all].
# The conformance suite is shared by MILLSTREAM_PROCESSES processes (8 unless given: 16 fill the memory of an H200), plain or under
# compute-sanitizer. MILLSTREAM_CONFORMANCE_KINDS=softmax,conv restricts it.
# On a machine without cargo, MILLSTREAM_CONFORMANCE and MILLSTREAM_PROGRAM name the test (that of
# `cargo test --release --no-run --test conformance`) and the program.
set -euo pipefail
cd "$(dirname "$0")/.."

# More parts than cores, so that a slow one does not keep the others waiting.
parts=${MILLSTREAM_PARTS:-64}
export MILLSTREAM_REQUIRE_CUDA=1 MILLSTREAM_KERNEL_CACHE=${MILLSTREAM_KERNEL_CACHE:-10000}

conformance() {
    [ -n "${MILLSTREAM_CONFORMANCE:-}" ] && { echo "$MILLSTREAM_CONFORMANCE"; return; }
    cargo test --release --no-run --test conformance --message-format=json 2>/dev/null \
        | python3 -c 'import json, sys; print([m["executable"] for m in map(json.loads, sys.stdin) if m.get("executable")][-1])'
}

# suite LABEL COMMAND...: every part after COMMAND, and the sum of what they found.
suite() {
    local label=$1 test folder failed=0
    shift
    test=$(conformance)
    folder=$(mktemp -d)
    seq "$parts" | xargs -P "${MILLSTREAM_PROCESSES:-8}" -I{} env MILLSTREAM_CONFORMANCE_PART="{}/$parts" \
        sh -c '"$@" >"$0" 2>&1' "$folder/{}.log" "$@" "$test" the_cuda_device_conforms --nocapture || failed=1
    python3 - "$label" "$folder" "$parts" <<'P' || failed=1
import glob, re, sys
label, folder, parts = sys.argv[1], sys.argv[2], int(sys.argv[3])
texts = [open(name, errors="replace").read() for name in glob.glob(folder + "/*.log")]
counts = [re.search(r"cuda: (\d+) passed, (\d+) failed", text) for text in texts]
passed = sum(int(count[1]) for count in counts if count)
failed = sum(int(count[2]) for count in counts if count)
silent = parts - sum(count is not None for count in counts)
print(f"{label}: {passed} passed, {failed} failed, {silent} of {parts} parts without a result")
for text in texts:
    for line in text.splitlines():
        if "SUMMARY" in line and not re.search(r"SUMMARY: 0 ", line) or "panicked" in line:
            print(line)
sys.exit(bool(failed or silent))
P
    [ "$failed" = 0 ] || { echo "$label: see $folder" >&2; return 1; }
    rm -r "$folder"
}

sanitized() { suite "$1" compute-sanitizer --tool "$1" --error-exitcode 9 --print-limit 3; }

# The device as users see it, random cases and 31 streams at once.
device() {
    cargo test --release --test cuda_device
    cargo test --release --test conformance -- random_cases_conform_on_the_cuda thirty_one_streams_at_once_conform
}

stress() {
    local program=(cargo run --release --quiet --)
    [ -n "${MILLSTREAM_PROGRAM:-}" ] && program=("$MILLSTREAM_PROGRAM")
    for threads in 8 31 64 256; do
        "${program[@]}" stress --device cuda --threads "$threads"
    done
}

case ${1:-all} in
    suite) suite suite env ;;
    device) device ;;
    memcheck | racecheck) sanitized "$1" ;;
    stress) stress ;;
    all) suite suite env; device; stress; sanitized memcheck; sanitized racecheck ;;
    *) echo "usage: $0 [suite|device|memcheck|racecheck|stress|all]" >&2; exit 2 ;;
esac
