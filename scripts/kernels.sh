#!/usr/bin/env bash
# Executes every kernel on the host, with and without sanitizers, and compiles every kernel for CUDA and for Metal (with
# the strict library of crates/metal/driver): scripts/kernels.sh [host|asan|tsan|nvrtc|metal|all]. MILLSTREAM_KERNELS_KINDS=fill,copy restricts all of them.
# For CUDA that is machine code for sm_90, and PTX for sm_80 and sm_100, which takes half the time;
# MILLSTREAM_KERNELS_ARCHITECTURES="sm_80 sm_100" makes machine code of these too.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target"
target=$(cd "$target" && pwd)
export MILLSTREAM_KERNELS_REQUIRED=1

need_clang() {
    command -v clang-22 >/dev/null && [ -n "$(runtime asan)" ] && return
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends clang-22 libclang-rt-22-dev
}

# The library that has to be in the process before anything that a sanitizer watches.
runtime() {
    local path
    path=$(clang-22 -print-file-name="libclang_rt.$1-x86_64.so")
    [ "$path" = "${path##*/}" ] || echo "$path"
}

host() {
    need_clang
    cargo test -p millstream-kernels --test host -- --nocapture
}

# Kernels are built with the sanitizer, the test around them is not.
sanitized() {
    need_clang
    local library
    library=$(runtime "$1")
    [ -n "$library" ] || { echo "clang-22 has no $1 runtime" >&2; exit 1; }
    CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="env LD_PRELOAD=$library" \
        MILLSTREAM_KERNELS_SANITIZER=$2 \
        cargo test -p millstream-kernels --test host -- --nocapture --test-threads=1
}

asan() {
    ASAN_OPTIONS=detect_leaks=0:halt_on_error=1:detect_stack_use_after_return=0 sanitized asan address
}

tsan() {
    TSAN_OPTIONS=halt_on_error=1:exitcode=66:ignore_noninstrumented_modules=1 sanitized tsan thread
}

nvrtc() {
    local venv=$target/nvrtc/venv
    [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
    "$venv/bin/pip" install -q --disable-pip-version-check 'nvidia-cuda-nvrtc==13.0.*'
    rm -rf "$target/nvrtc/sources"
    cargo run -q -p millstream-kernels --example sources -- "$target/nvrtc/sources" cuda
    # shellcheck disable=SC2086 # a list of words
    "$venv/bin/python" scripts/nvrtc.py "$target/nvrtc/sources" ${MILLSTREAM_KERNELS_ARCHITECTURES:-compute_80 sm_90 compute_100}
}

metal() {
    need_clang
    bash scripts/metal-bindings.sh
    rm -rf "$target/metal-sources"
    # Fewer files share the cost of the prelude among more kernels.
    cargo run -q -p millstream-kernels --example sources -- "$target/metal-sources" metal 40
    (cd crates/metal/driver && cargo run -q --example texts -- "$target/metal-sources")
}

case ${1:-all} in
    host) host ;;
    asan) asan ;;
    tsan) tsan ;;
    nvrtc) nvrtc ;;
    metal) metal ;;
    all) host; asan; tsan; nvrtc; metal ;;
    *) echo "usage: $0 [host|asan|tsan|nvrtc|metal|all]" >&2; exit 2 ;;
esac
