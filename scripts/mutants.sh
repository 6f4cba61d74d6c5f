#!/usr/bin/env bash
# Small changes that break a promise, each with the test that must notice: `scripts/mutants/NAME.patch`.
#
#     scripts/mutants.sh [NAME...]     these, or all
#     scripts/mutants.sh --part K/N    the K-th of N parts; K may be "today": another one every day
#     scripts/mutants.sh --list        names, promises and tests
#
# `MILLSTREAM_MUTANTS=scripts/mutants/metal` takes the changes of another folder.
#
# The first lines of a patch say what it breaks and what notices:
#
#     # breaks: invariant 4: waits name submitted work only
#     # caught by: cargo test -p millstream-core --test streams invariant_04
#     # a hang counts                  where the change makes threads wait for ever; else a hang is an error
#
# Everything happens in a copy of the tree, with a target folder of its own, so that every change costs one
# incremental build. Before any change the tests themselves must pass. A patch that does not apply, that does not
# compile, or whose test does not exist is an error, as is a change that nobody notices.
set -euo pipefail
cd "$(dirname "$0")/.."
root="$PWD"
patches="$root/${MILLSTREAM_MUTANTS:-scripts/mutants}"
field() { sed -n "s/^# $1: //p" "$patches/$2.patch"; }
fail() {
    echo "error: $*" >&2
    exit 1
}

work="${CARGO_TARGET_DIR:-target}/mutants"
mkdir -p "$work/tree"
work="$(cd "$work" && pwd)"
tree="$work/tree"
exec 9>"$work/lock"
flock --nonblock 9 || fail "another run is under way"
log="$work/log"
# A test takes seconds at most; one that takes this long hangs.
limit="${MILLSTREAM_MUTANT_SECONDS:-40}"

names=()
case "${1:-}" in
    --list | --part | "")
        for patch in "$patches"/*.patch; do
            names+=("$(basename "$patch" .patch)")
        done
        ;;
    *) names=("$@") ;;
esac
if [ "${1:-}" = --part ]; then
    part="${2:?which part: K/N}"
    count="${part#*/}"
    index="${part%/*}"
    [ "$index" != today ] || index=$((10#$(date +%j) % count + 1))
    # Neighbors in the list share a crate, so a part is a piece of the list and not every N-th of it.
    first=$((${#names[@]} * (index - 1) / count))
    names=("${names[@]:first:${#names[@]} * index / count - first}")
fi
for name in "${names[@]}"; do
    [ -f "$patches/$name.patch" ] || fail "there is no $name.patch"
    [ -n "$(field breaks "$name")" ] && [ -n "$(field 'caught by' "$name")" ] || fail "$name.patch does not say what it breaks, or what notices"
done
if [ "${1:-}" = --list ]; then
    for name in "${names[@]}"; do
        printf '%s\n    %s\n    %s\n' "$name" "$(field breaks "$name")" "$(field 'caught by' "$name")"
    done
    exit 0
fi

# Brings the copy up to date. Files that are the same keep their time, so that cargo builds what has changed only.
copy_tree() {
    local file list="$work/files"
    git ls-files --cached --others --exclude-standard | sort >"$list"
    while IFS= read -r file; do
        [ -f "$file" ] || continue
        if ! cmp -s "$file" "$tree/$file"; then
            mkdir -p "$tree/$(dirname "$file")"
            cp "$file" "$tree/$file"
        fi
    done <"$list"
    (cd "$tree" && find . -type f -not -path './target/*' -not -path './crates/metal/driver/target/*' | sed 's|^\./||' | sort) | comm -13 "$list" - |
        while IFS= read -r file; do rm "$tree/$file"; done
}

# Runs a test in the copy, for so many seconds. 0: passed; 1: failed; 2: does not build; 3: no such test; 4: hangs.
run_test() {
    local status=0
    local -a command
    read -r -a command <<<"$1"
    (
        cd "$tree"
        export CARGO_TARGET_DIR="$work/target" RUST_BACKTRACE=0
        # Most of the time goes into builds.
        export CARGO_PROFILE_DEV_OPT_LEVEL=0 CARGO_PROFILE_DEV_DEBUG=0
        # Everything up to the name of the test is for the build.
        "${command[@]}" --no-run >"$log" 2>&1 || exit 2
        exec timeout --kill-after=5 "$2" "${command[@]}" >"$log" 2>&1
    ) || status=$?
    case "$status" in
        0) grep -Eq '^test .+ \.\.\. ' "$log" && return 0 || return 3 ;;
        2) return 2 ;;
        124 | 137) return 4 ;;
        *) return 1 ;;
    esac
}

copy_tree
case "$patches" in
    */metal) (cd "$tree" && bash scripts/metal-bindings.sh) ;;
esac
echo "the tests themselves"
printf '%s\n' "${names[@]}" | while IFS= read -r name; do field 'caught by' "$name"; done | sort -u >"$work/tests"
while IFS= read -r test; do
    run_test "$test" $((10 * limit)) || {
        tail -30 "$log" >&2
        fail "without any change this does not pass: $test"
    }
done <"$work/tests"

caught=0
wrong=()
for name in "${names[@]}"; do
    began=$SECONDS
    test="$(field 'caught by' "$name")"
    sed '/^# /d' "$patches/$name.patch" >"$work/patch"
    if (cd "$tree" && patch --dry-run --force -p1 <"$work/patch" >"$log" 2>&1); then
        (cd "$tree" && patch --force --quiet -p1 <"$work/patch")
        status=0
        # It took far less without the change.
        grep -q '^# a hang counts' "$patches/$name.patch" && seconds=$((limit / 2)) || seconds=$limit
        run_test "$test" "$seconds" || status=$?
        (cd "$tree" && patch --force --quiet --reverse -p1 <"$work/patch")
    else
        status=5
    fi
    case "$status" in
        0) outcome=SURVIVED ;;
        1) outcome=caught ;;
        2) outcome="DOES NOT BUILD" ;;
        3) outcome="NO SUCH TEST" ;;
        4) grep -q '^# a hang counts' "$patches/$name.patch" && outcome="caught (hangs)" || outcome=HANGS ;;
        *) outcome="DOES NOT APPLY" ;;
    esac
    printf '%-34s %-14s %3ss  %s\n' "$name" "$outcome" $((SECONDS - began)) "$(field breaks "$name")"
    case "$outcome" in
        caught*) caught=$((caught + 1)) ;;
        *)
            wrong+=("$name")
            tail -15 "$log" >&2
            ;;
    esac
done
echo "$caught of ${#names[@]} changes were noticed, in ${SECONDS}s"
[ ${#wrong[@]} = 0 ] || fail "not as it should be: ${wrong[*]}"
