//! The `millstream` program, linked with the Metal driver. It fails if a rule of Metal's was broken.

use std::process::ExitCode;

use millstream_metal as _;
use millstream_metal_driver::rules;

fn main() -> ExitCode {
    let code = millstream_cli::main();
    match rules::count() {
        0 => code,
        broken => {
            eprintln!("{broken} rules of Metal's were broken");
            ExitCode::from(3)
        }
    }
}
