//! Building the driver, which a process finds when this folder is in its loader's path.

use std::path::{Path, PathBuf};
use std::process::Command as Process;

/// Builds the driver; where it lies, or none without a compiler.
pub fn build(name: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).expect("a folder for the driver");
    let own = folder.join("driver.c");
    std::fs::write(&own, include_str!("driver.c")).expect("a file for the driver");
    let builtin = folder.join("builtin.c");
    std::fs::write(&builtin, builtin_kernels()).expect("a file for the kernels");
    let library = folder.join("libcuda.so");
    let mut compiler = Process::new("cc");
    compiler.args(["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"]);
    compiler.arg(own).arg(builtin).arg("-o").arg(&library).arg("-lpthread");
    let status = compiler.status().ok()?;
    assert!(status.success(), "the driver does not compile");
    for name in ["libnvrtc.so", "libcublasLt.so"] {
        let link = folder.join(name);
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(&library, link).expect("a link to the driver");
    }
    Some(folder)
}

/// The kernels that belong to this backend alone, as a C program: the driver runs the very text.
fn builtin_kernels() -> String {
    const CLOCK: &str = r#"asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));"#;
    let text = include_str!("../../src/builtin.cu");
    assert!(text.contains(CLOCK));
    let text = text.replace(CLOCK, "time = host_time();").replace("extern \"C\" ", "");
    [include_str!("builtin.h"), "#line 1 \"builtin.cu\"\n", &text].concat()
}
