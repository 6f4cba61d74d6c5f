#!/usr/bin/env bash
# Copies objc2-metal from the registry and makes its one line conditional that only Apple's linker takes, as it is in
# objc2-foundation. The copy stands in crates/metal/driver/target and is never committed.
set -euo pipefail
cd "$(dirname "$0")/../crates/metal/driver"
third=target/third
[ -f "$third/objc2-metal/.done" ] && exit 0
mkdir -p "$third/fetch"
printf '[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2024"\n[lib]\npath = "lib.rs"\n[workspace]\n[dependencies]\nobjc2-metal = { version = "=0.3.2", default-features = false }\n' >"$third/fetch/Cargo.toml"
: >"$third/fetch/lib.rs"
cargo metadata --quiet --format-version 1 --manifest-path "$third/fetch/Cargo.toml" >"$third/fetch/metadata.json"
python3 - "$third" <<'P'
import json, os, pathlib, shutil, sys
third = pathlib.Path(sys.argv[1])
packages = json.load(open(third / "fetch/metadata.json"))["packages"]
source = next(os.path.dirname(p["manifest_path"]) for p in packages if p["name"] == "objc2-metal")
target = third / "objc2-metal"
shutil.rmtree(target, ignore_errors=True)
shutil.copytree(source, target)
path = target / "src/generated/mod.rs"
old = '\n#[link(name = "Metal", kind = "framework")]'
new = '\n#[cfg_attr(target_vendor = "apple", link(name = "Metal", kind = "framework"))]'
text = path.read_text()
assert text.count(old) == 1, "objc2-metal has changed: look at its link attribute"
path.write_text(text.replace(old, new))
(target / ".done").touch()
P
