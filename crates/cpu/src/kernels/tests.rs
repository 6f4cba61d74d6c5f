mod same_bits;
mod scratch;

use super::*;

#[test]
fn every_kind_of_command_has_a_kernel() {
    let missing: Vec<_> = OpKind::ALL.iter().filter(|&&kind| !supports(kind)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
