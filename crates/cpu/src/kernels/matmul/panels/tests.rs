use super::*;

#[test]
fn products_of_any_size_follow_the_definition_on_every_machine() {
    for isa in Isa::available() {
        let width = f32::width(isa);
        for rows in [1, 2, 3, 5, 7, 8, 13, 16] {
            for columns in [1, width, width + 3] {
                check(isa, rows, columns, 9);
            }
        }
    }
}

fn check(isa: Isa, rows: usize, columns: usize, k: usize) {
    let width = f32::width(isa);
    let panels = columns.div_ceil(width);
    let lhs: Vec<f32> = (0..rows * k).map(|i| (i % 7) as f32 - 3.0).collect();
    let rhs: Vec<f32> = (0..panels * k * width).map(|i| (i % 5) as f32 - 2.0).collect();
    let mut sums = vec![1.0f32; rows * panels * width];
    let product = Product {
        rows,
        columns,
        k,
        lhs: lhs.as_ptr(),
        lhs_row_stride: k,
        lhs_k_stride: 1,
        rhs: rhs.as_ptr(),
        rhs_panel_stride: k * width,
        rhs_k_stride: width,
        sums: sums.as_mut_ptr(),
        stride: panels * width,
        begin: false,
    };
    // SAFETY: the vectors have the sizes of the product, and the ISA is available.
    unsafe { product.run(isa) };
    for row in 0..rows {
        for column in 0..columns {
            let (panel, place) = (column / width, column % width);
            let sum: f32 =
                (0..k).map(|i| lhs[row * k + i] * rhs[(panel * k + i) * width + place]).sum();
            assert_eq!(sums[row * panels * width + column], 1.0 + sum);
        }
    }
}
