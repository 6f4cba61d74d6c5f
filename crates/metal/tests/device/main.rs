//! The Metal device on the driver: what goes wrong, order, and the end of a process.
//!
//! The GPU belongs to the process, and so do the faults that the driver is set to. So every test starts the program again for itself, and no rule
//! of Metal's may be broken in it.

mod archives;
mod compiler;
mod failures;
mod in_place;
mod indirect;
mod kit;
mod lifetime;
mod memory;
mod order;
mod probe;
mod products;
mod switches;
mod system;
mod times;

/// The tests, as texts.
const TESTS: &[&str] = &[
    include_str!("archives.rs"),
    include_str!("compiler.rs"),
    include_str!("failures.rs"),
    include_str!("in_place.rs"),
    include_str!("indirect.rs"),
    include_str!("lifetime.rs"),
    include_str!("memory.rs"),
    include_str!("order.rs"),
    include_str!("products.rs"),
    include_str!("system.rs"),
    include_str!("times.rs"),
];

#[test]
fn every_refusal_of_the_driver_is_provoked() {
    for refusal in millstream_metal_driver::control::Refusal::ALL {
        let name = format!("Refusal::{refusal:?}");
        assert!(TESTS.iter().any(|text| text.contains(&name)), "no test has {name}");
    }
}

/// The table of `docs/metal.md` has a test in each of its rows.
#[test]
fn every_row_of_what_goes_wrong_names_tests_that_exist() {
    let docs = include_str!("../../../../docs/metal.md");
    let (_, section) = docs.split_once("## When things go wrong").expect("the section");
    let (section, _) = section.split_once("\n## ").expect("a section behind it");
    let rows: Vec<_> = section.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    assert!(rows.len() >= 9, "{rows:?}");
    for row in rows {
        let tests = row.rsplit('|').nth(1).expect("a last column");
        let names: Vec<_> = tests.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "a row without a test: {row}");
        for name in names {
            let function = format!("fn {name}()");
            assert!(TESTS.iter().any(|text| text.contains(&function)), "there is no test {name}");
        }
    }
}
