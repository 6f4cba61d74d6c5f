use super::*;

#[test]
fn blocks_cover_the_product_and_large_products_have_many() {
    let shape = Shape { rows: 14, columns: 32 };
    for size in [[1, 1024, 1024], [31, 1024, 1024], [200, 256, 768], [2048, 2048, 2048]] {
        let plan = Plan::new(size, true, shape, Machine::Portable);
        assert!(plan.rows * plan.down >= size[0] && plan.columns * plan.across >= size[1]);
        assert!(plan.rows * (plan.down - 1) < size[0]);
        assert!(plan.columns * (plan.across - 1) < size[1]);
        assert_eq!(plan.columns % shape.columns, 0);
        assert!(plan.down * plan.across >= 4, "{size:?}: {plan:?}");
    }
}

#[test]
fn a_small_product_is_one_block() {
    let shape = Shape { rows: 14, columns: 32 };
    let plan = Plan::new([8, 64, 64], false, shape, Machine::Portable);
    assert_eq!((plan.down, plan.across), (1, 1));
}
