use super::*;

#[test]
fn helpers_join_while_cores_are_free() {
    let helpers = Helpers::new();
    assert!(!helpers.join(0));
    assert!(helpers.join(2) && helpers.join(2) && !helpers.join(2));
    assert!(!helpers.are_too_many(2) && helpers.are_too_many(1));
    helpers.leave();
    assert!(helpers.join(2));
}
