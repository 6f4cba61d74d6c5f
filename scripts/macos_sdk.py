#!/usr/bin/env python3
"""Writes a folder that programs for macOS can be linked against on Linux: `macos_sdk.py FOLDER`.

Libraries are lists of the names that they export (.tbd files). No list is kept by hand:

- libSystem is Apple's own list, which the `ziglang` package carries.
- Those of the frameworks are the functions and constants that objc2's bindings declare, which are made from Apple's headers.
- That of the Objective-C runtime is what objc2 itself declares.

So a name that this project declares by itself and spells wrong is not found, and neither is one that Apple's headers do not have. What a
framework exports and no header says does not count: a link here is no proof of a link there.
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

TARGETS = "[ arm64-macos, arm64e-macos, x86_64-macos ]"
# Frameworks, with the crates whose declarations are their names.
FRAMEWORKS = {
    "CoreFoundation": ["objc2-core-foundation"],
    "CoreGraphics": [],
    "Foundation": ["objc2-foundation"],
    "IOKit": ["objc2-io-kit"],
    "Metal": ["objc2-metal"],
}
BINDINGS = ["block2", "objc2", "objc2-core-foundation", "objc2-foundation", "objc2-io-kit", "objc2-metal"]
BLOCK = re.compile(r'extern\s+"C(?:-unwind)?"\s*\{')
NAME = re.compile(r'(?:#\[link_name\s*=\s*"(?P<link>\w+)"\]\s*)?(?:pub(?:\([^)]*\))?\s+)?(?:safe\s+|unsafe\s+)?(?:fn|static(?:\s+mut)?)\s+(?P<name>\w+)')


def declared(text):
    """The names that the foreign blocks of a Rust text declare."""
    for found in BLOCK.finditer(text):
        depth, end = 1, found.end()
        while depth and end < len(text):
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        lines = (line.split("//")[0] for line in text[found.end() : end].splitlines())
        for match in NAME.finditer("\n".join(lines)):
            yield match["link"] or match["name"]


def declared_by_macro(text):
    """The names of `extern_c! { … }`, objc2's own way to say the same."""
    for found in re.finditer(r"extern_c(?:_unwind)?!\s*\{", text):
        yield from declared('extern "C" {' + text[found.end() :].split("\n}", 1)[0] + "}")


def names_of(folder):
    names = set()
    for path in pathlib.Path(folder, "src").rglob("*.rs"):
        text = path.read_text()
        names.update(declared(text))
        names.update(declared_by_macro(text))
    return names


def fetch_bindings(work):
    """The sources of the bindings, in the versions that this project has, by name."""
    lock = pathlib.Path(__file__).parent.parent / "Cargo.lock"
    locked = dict(re.findall(r'name = "([^"]+)"\nversion = "([^"]+)"', lock.read_text()))
    newest = locked["objc2-metal"]
    wanted = [f'{name} = {{ version = "={locked.get(name, newest)}", default-features = false }}' for name in BINDINGS]
    work.mkdir(parents=True, exist_ok=True)
    (work / "lib.rs").touch()
    manifest = work / "Cargo.toml"
    head = '[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2024"\n[lib]\npath = "lib.rs"\n[workspace]\n[dependencies]\n'
    manifest.write_text(head + "\n".join(wanted) + "\n")
    command = ["cargo", "metadata", "--quiet", "--format-version", "1", "--manifest-path", str(manifest)]
    packages = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)["packages"]
    return {p["name"]: pathlib.Path(p["manifest_path"]).parent for p in packages}


def fetch_system(work):
    """Apple's list of what libSystem exports, for targets that lld knows."""
    work.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest", str(work), "ziglang"]
    subprocess.run(command, check=True)
    wheel = next(work.glob("ziglang-*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        member = next(n for n in archive.namelist() if n.endswith("/libc/darwin/libSystem.tbd"))
        text = archive.read(member).decode()
    return text.replace("arm64e.x1-", "arm64-")


def stub(path, install_name, names):
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ["--- !tapi-tbd", "tbd-version: 4", f"targets: {TARGETS}", f"install-name: '{install_name}'"]
    if names:
        symbols = ", ".join("_" + name for name in sorted(names))
        lines += ["exports:", f"  - targets: {TARGETS}", f"    symbols: [ {symbols} ]"]
    path.write_text("\n".join(lines) + "\n...\n")


def main():
    sdk = pathlib.Path(sys.argv[1])
    work = sdk.with_name(sdk.name + "-work")
    shutil.rmtree(sdk, ignore_errors=True)
    libraries = sdk / "usr/lib"
    libraries.mkdir(parents=True)
    (libraries / "libSystem.tbd").write_text(fetch_system(work))
    for name in ["libc", "libm"]:
        (libraries / f"{name}.tbd").symlink_to("libSystem.tbd")
    stub(libraries / "libiconv.tbd", "/usr/lib/libiconv.2.dylib", [])
    bindings = fetch_bindings(work / "bindings")
    stub(libraries / "libobjc.tbd", "/usr/lib/libobjc.A.dylib", names_of(bindings["objc2"]))
    for framework, crates in FRAMEWORKS.items():
        folder = f"System/Library/Frameworks/{framework}.framework"
        names = set().union(*(names_of(bindings[crate]) for crate in crates))
        stub(sdk / folder / f"{framework}.tbd", f"/{folder}/Versions/A/{framework}", names)
    shutil.rmtree(work)


if __name__ == "__main__":
    main()
