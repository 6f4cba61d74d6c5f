#!/usr/bin/env bash
# Weakens one memory ordering after the other (scripts/weaken.list), in a copy of the tree, and demands that loom
# notices each. With arguments: only the lines of the list that contain one of them.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p "${CARGO_TARGET_DIR:-target}"
CARGO_TARGET_DIR="$(cd "${CARGO_TARGET_DIR:-target}" && pwd)/weaken"
export CARGO_TARGET_DIR
# Part of what cargo builds with; the same for every build here, so that each is a small step from the last.
export RUSTFLAGS="--cfg loom"
export CARGO_PROFILE_DEV_OPT_LEVEL=1 CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_DEV_INCREMENTAL=true
# Kernels have no part in this.
kernels=(--config 'profile.dev.package.millstream-cpu.opt-level=0')
log="$CARGO_TARGET_DIR/weaken.log"
tree="$CARGO_TARGET_DIR/tree"

rm -rf "$tree"
mkdir -p "$tree"
# A file may be deleted here and not yet in git.
git ls-files -z --cached --others --exclude-standard |
    while IFS= read -r -d '' file; do [ -f "$file" ] && printf '%s\0' "$file"; done |
    tar --create --null --files-from=- --file=- | tar --extract --file=- --directory="$tree"

# The lines of the list without comments; `split` gives the fields of one.
mapfile -t lines < <(grep -v '^#' scripts/weaken.list | grep -F "${@/#/-e}" -e "${1-}" || true)
[ "${#lines[@]}" -gt 0 ] || { echo "error: no such line" >&2; exit 1; }
split() {
    IFS='|' read -r file function from to crate test <<<"${1// | /|}"
}

# Runs a loom test of a crate of the copy; whether it passed. What is neither pass nor failure ends the script.
passes() {
    local crate="millstream-$1" test="$2" status=0
    (cd "$tree" && cargo test --quiet "${kernels[@]}" --lib -p "$crate" --no-run) >"$log" 2>&1 ||
        { cat "$log"; echo "error: the build failed" >&2; exit 1; }
    (cd "$tree" && timeout 600 cargo test --quiet "${kernels[@]}" --lib -p "$crate" "$test") >"$log" 2>&1 || status=$?
    grep -q "^running 1 test" "$log" || { cat "$log"; echo "error: there is not one $test" >&2; exit 1; }
    [ "$status" -ne 124 ] || { echo "error: $test takes too long" >&2; exit 1; }
    [ "$status" -eq 0 ]
}

# Prints a file with `to` for `from` in the first line of code that has it, at or after the head of the function.
weakened() {
    FUNCTION="$2" FROM="$3" TO="$4" awk '
        BEGIN { name = ENVIRON["FUNCTION"]; from = ENVIRON["FROM"]; to = ENVIRON["TO"] }
        name == "-" || index($0, "fn " name "(") || index($0, "fn " name "<") { inside = 1 }
        inside && !done && $0 !~ /^ *\/\// && (place = index($0, from)) {
            $0 = substr($0, 1, place - 1) to substr($0, place + length(from)); done = 1
        }
        { print }
        END { exit !done }' "$1"
}

# As the tree is, every test passes. Cargo goes by the time of a file, and may know a weakened one from an earlier run.
for line in "${lines[@]}"; do
    split "$line"
    touch "$tree/$file"
done
declare -A seen
for line in "${lines[@]}"; do
    split "$line"
    [ -z "${seen[$test]-}" ] || continue
    passes "$crate" "$test" || { cat "$log"; echo "error: $test fails as it is" >&2; exit 1; }
    seen[$test]=1
done
echo "weaken: ${#seen[@]} tests pass as the tree is, after ${SECONDS} s"

missed=0
for line in "${lines[@]}"; do
    split "$line"
    original="$CARGO_TARGET_DIR/original.rs"
    cp "$tree/$file" "$original"
    weakened "$original" "$function" "$from" "$to" >"$tree/$file" ||
        { echo "error: $file: $function has no $from" >&2; exit 1; }
    if passes "$crate" "$test"; then
        echo "error: $test does not notice $to in $file, $function" >&2
        missed=$((missed + 1))
    else
        echo "noticed: $file, $function: $to for $from ($test)"
    fi
    cp "$original" "$tree/$file"
done
[ "$missed" -eq 0 ] || exit 1
echo "weaken: all ${#lines[@]} noticed, after ${SECONDS} s"
