use super::*;

#[test]
fn ids_differ_between_threads() {
    let here = next_product_id();
    let there = std::thread::spawn(next_product_id).join().unwrap();
    assert_ne!(here, there);
    assert_ne!(here, next_product_id());
}
