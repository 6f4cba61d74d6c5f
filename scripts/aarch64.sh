#!/usr/bin/env bash
# The tests of core and of the CPU device for aarch64, executed by qemu: what does not build there, and what
# depends on x86. (qemu keeps much of x86's memory order: orderings that are too weak are for loom to find.)
set -euo pipefail
cd "$(dirname "$0")/.."
target=aarch64-unknown-linux-gnu

packages=(qemu-user-static gcc-aarch64-linux-gnu libc6-dev-arm64-cross rustc-web cargo-web rust-web-src)
missing=()
for package in "${packages[@]}"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
if [ "${#missing[@]}" -gt 0 ]; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
fi

# The distribution's compiler and library sources are of one release: the library is built for the target.
export PATH="/usr/bin:$PATH" RUSTC_BOOTSTRAP=1
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/aarch64"
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64-static -L /usr/aarch64-linux-gnu"
emulated() { /usr/bin/cargo "$1" -Zbuild-std --target "$target" "${@:2}"; }

emulated test -p millstream-core --lib --tests
emulated test -p millstream-cpu --lib
