use super::*;

#[test]
fn tiles_cover_the_product_and_large_products_have_many() {
    let shape = Shape { rows: 14, columns: 32 };
    for size in [[1, 1024, 1024], [31, 1024, 1024], [200, 256, 768], [2048, 2048, 2048]] {
        let tiling = Tiling::new(size, true, shape, Isa::Portable);
        assert!(tiling.rows * tiling.down >= size[0] && tiling.columns * tiling.across >= size[1]);
        assert!(tiling.rows * (tiling.down - 1) < size[0]);
        assert!(tiling.columns * (tiling.across - 1) < size[1]);
        assert_eq!(tiling.columns % shape.columns, 0);
        assert!(tiling.down * tiling.across >= 4, "{size:?}: {tiling:?}");
    }
}

#[test]
fn a_small_product_is_one_tile() {
    let shape = Shape { rows: 14, columns: 32 };
    let tiling = Tiling::new([8, 64, 64], false, shape, Isa::Portable);
    assert_eq!((tiling.down, tiling.across), (1, 1));
}
