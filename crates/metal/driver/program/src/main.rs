//! The `millstream` program, linked with the Metal driver. It fails if a rule of Metal's was broken, or if objects are left
//! when a stress run has closed its device.

use std::process::ExitCode;
use std::time::Duration;

use millstream_metal_driver::{control, rules};

fn main() -> ExitCode {
    let code = millstream_cli::main();
    // Other commands leave their device to the end of the process.
    if std::env::args().nth(1).as_deref() == Some("stress") {
        control::expect_left(&millstream_metal::kept_objects(), Duration::from_secs(60));
    }
    match rules::count() {
        0 => code,
        broken => {
            eprintln!("{broken} rules of Metal's were broken");
            ExitCode::from(3)
        }
    }
}
