#!/usr/bin/env bash
# For macOS on Apple silicon, on Linux: types and lints of every crate, its tests, examples and programs, all of which are linked to
# Mach-O. Nothing of Apple's is needed: scripts/macos_sdk.py makes lists of what Apple's libraries export. Nothing here can run
# what comes of it. One build does all three: clippy's driver is a compiler.
set -euo pipefail
cd "$(dirname "$0")/.."

target=aarch64-apple-darwin
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}/macos"
export SDKROOT=$CARGO_TARGET_DIR/sdk
rustup target add "$target" 2>/dev/null
if [ ! -f "$SDKROOT/.done" ] || [ scripts/macos_sdk.py -nt "$SDKROOT/.done" ] || [ Cargo.lock -nt "$SDKROOT/.done" ]; then
    python3 scripts/macos_sdk.py "$SDKROOT"
    touch "$SDKROOT/.done"
fi

flags="-Dwarnings -Clinker=rust-lld -Clinker-flavor=ld64.lld"

# links FRAMEWORK FUNCTION: whether the linker finds it there.
links() {
    # shellcheck disable=SC2086 # a list of words
    printf '#[link(name = "%s", kind = "framework")] unsafe extern "C" { safe fn %s(); }\nfn main() { %s() }\n' "$1" "$2" "$2" |
        rustc --edition 2024 --target "$target" $flags -o "$CARGO_TARGET_DIR/linked" - 2>"$CARGO_TARGET_DIR/linked.log"
}
links IOKit IOServiceMatching || { cat "$CARGO_TARGET_DIR/linked.log" >&2; exit 1; }
if links IOKit IOServiceMatchingNothing || ! grep -q "undefined symbol" "$CARGO_TARGET_DIR/linked.log"; then
    echo "a name that no library has was not noticed" >&2
    exit 1
fi

# Code that nobody runs need not be fast, and has no use for debug information.
export CARGO_PROFILE_DEV_OPT_LEVEL=0 CARGO_PROFILE_DEV_DEBUG=false CARGO_INCREMENTAL=0 CARGO_TARGET_AARCH64_APPLE_DARWIN_RUSTFLAGS=$flags
RUSTC_WORKSPACE_WRAPPER=$(rustc --print sysroot)/bin/clippy-driver
export RUSTC_WORKSPACE_WRAPPER
messages=$CARGO_TARGET_DIR/messages.json
cargo build --quiet --workspace --all-targets --target "$target" --message-format json-render-diagnostics >"$messages"

# Every executable is one for that system: 64 bits, ARM, a program.
python3 - "$messages" <<'P'
import json, struct, sys
programs = [m["executable"] for m in map(json.loads, open(sys.argv[1])) if m.get("executable")]
for path in programs:
    magic, processor, _, kind = struct.unpack("<4I", open(path, "rb").read(16))
    assert (magic, processor, kind) == (0xFEEDFACF, 0x0100000C, 2), path
assert any(path.endswith("/millstream") for path in programs), programs
print(f"macOS: {len(programs)} programs linked")
P
