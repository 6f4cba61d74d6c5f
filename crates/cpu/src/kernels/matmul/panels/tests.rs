use super::*;

#[test]
fn products_of_any_size_follow_the_definition_on_every_machine() {
    for machine in Machine::available() {
        let width = f32::width(machine);
        for rows in [1, 2, 3, 5, 7, 8, 13, 16] {
            for columns in [1, width, width + 3] {
                check(machine, rows, columns, 9);
            }
        }
    }
}

fn check(machine: Machine, rows: usize, columns: usize, depth: usize) {
    let width = f32::width(machine);
    let panels = columns.div_ceil(width);
    let left: Vec<f32> = (0..rows * depth).map(|i| (i % 7) as f32 - 3.0).collect();
    let right: Vec<f32> = (0..panels * depth * width).map(|i| (i % 5) as f32 - 2.0).collect();
    let mut sums = vec![1.0f32; rows * panels * width];
    let product = Product {
        rows,
        columns,
        depth,
        left: left.as_ptr(),
        left_row: depth,
        left_step: 1,
        right: right.as_ptr(),
        right_panel: depth * width,
        right_step: width,
        sums: sums.as_mut_ptr(),
        stride: panels * width,
        begin: false,
    };
    // SAFETY: the vectors have the sizes of the product, and the machine is available.
    unsafe { product.run(machine) };
    for row in 0..rows {
        for column in 0..columns {
            let (panel, place) = (column / width, column % width);
            let sum: f32 = (0..depth)
                .map(|k| left[row * depth + k] * right[(panel * depth + k) * width + place])
                .sum();
            assert_eq!(sums[row * panels * width + column], 1.0 + sum);
        }
    }
}
