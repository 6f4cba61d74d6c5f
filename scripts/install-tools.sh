#!/usr/bin/env bash
# Installs what the ThreadSanitizer job needs on a bare Debian machine: a compiler whose standard
# library can be rebuilt with the sanitizer, and clang's runtime for it.
set -euo pipefail

packages=(rustc-web cargo-web rust-web-src clang-22 libclang-rt-22-dev)
missing=()
for package in "${packages[@]}"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
if [ "${#missing[@]}" -gt 0 ]; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
fi
