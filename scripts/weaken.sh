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

# Reads the list without comments; `trim` takes the spaces around a field.
mapfile -t lines < <(grep -v '^#' scripts/weaken.list | grep -F "${@/#/-e}" -e "${1-}" || true)
[ "${#lines[@]}" -gt 0 ] || { echo "error: no such line" >&2; exit 1; }
trim() { local text="${1#"${1%%[![:space:]]*}"}"; printf '%s' "${text%"${text##*[![:space:]]}"}"; }

# Runs a loom test of a crate of the copy. 0: passed, 1: failed. Anything else ends the script.
check() {
    local crate="millstream-$1" test="$2"
    (cd "$tree" && cargo test --quiet "${kernels[@]}" --lib -p "$crate" --no-run) >"$log" 2>&1 ||
        { cat "$log"; echo "error: the build failed" >&2; exit 1; }
    local status=0
    (cd "$tree" && timeout 600 cargo test --quiet "${kernels[@]}" --lib -p "$crate" "$test") >"$log" 2>&1 || status=$?
    grep -q "^running 1 test" "$log" || { cat "$log"; echo "error: there is not one $test" >&2; exit 1; }
    [ "$status" -ne 124 ] || { echo "error: $test takes too long" >&2; exit 1; }
    [ "$status" -eq 0 ]
}

# Replaces `from` by `to` in the first line of code that has it, at or after the head of the function.
weaken() {
    FUNCTION="$2" FROM="$3" TO="$4" awk '
        BEGIN { function_ = ENVIRON["FUNCTION"]; from = ENVIRON["FROM"]; to = ENVIRON["TO"] }
        function_ == "-" || index($0, "fn " function_ "(") || index($0, "fn " function_ "<") { inside = 1 }
        inside && !done && $0 !~ /^ *\/\// && (place = index($0, from)) {
            $0 = substr($0, 1, place - 1) to substr($0, place + length(from)); done = 1
        }
        { print }
        END { exit !done }' "$1" >"$tree/$1" || { echo "error: $1: $2 has no $3" >&2; exit 1; }
}

declare -A passes
missed=0
for line in "${lines[@]}"; do
    IFS='|' read -r file function from to crate test <<<"$line"
    file="$(trim "$file")" function="$(trim "$function")" from="$(trim "$from")"
    to="$(trim "$to")" crate="$(trim "$crate")" test="$(trim "$test")"
    # As it is, the test passes.
    if [ -z "${passes[$test]-}" ]; then
        # Cargo goes by the time of a file, and may know a weakened one from an earlier run.
        touch "$tree/$file"
        check "$crate" "$test" || { cat "$log"; echo "error: $test fails as it is" >&2; exit 1; }
        passes[$test]=1
    fi
    weaken "$file" "$function" "$from" "$to"
    if check "$crate" "$test"; then
        echo "error: $test does not notice $to in $file, $function" >&2
        missed=$((missed + 1))
    else
        echo "noticed: $file, $function: $to instead of $from ($test)"
    fi
    cp "$file" "$tree/$file"
done
[ "$missed" -eq 0 ] || exit 1
echo "weaken: all ${#lines[@]} noticed in ${SECONDS} s"
