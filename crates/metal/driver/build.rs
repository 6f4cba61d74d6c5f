//! objc2 asks the linker for `libobjc`. The runtime is in this crate, so an empty library will do.

use std::path::PathBuf;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let folder = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    std::fs::write(folder.join("libobjc.a"), "!<arch>\n").expect("OUT_DIR can be written");
    println!("cargo:rustc-link-search=native={}", folder.display());
}
