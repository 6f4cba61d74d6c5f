use super::*;

#[test]
fn every_value_is_combined_once_whatever_the_parts() {
    let values: Vec<u64> = (1..=100).collect();
    for count in [0, 1, 2, 5, 16, 17, 31, 32, 33, 64, 100] {
        for split in [0, 32, 64].into_iter().filter(|&split| split <= count) {
            let mut partials = [0; LANES];
            accumulate(&mut partials, 0, &values[..split], |sum, value, _| sum + value);
            accumulate(&mut partials, split, &values[split..count], |sum, value, index| {
                assert_eq!(value, index as u64 + 1);
                sum + value
            });
            let sum = count as u64 * (count as u64 + 1) / 2;
            assert_eq!(merge(partials, count, |a, b| a + b), sum);
        }
    }
}

#[test]
fn columns_combine_in_the_order_of_rows() {
    for count in [0, 1, 5, 32, 100] {
        let values: Vec<f32> = (0..count).map(|i| (i as f32).sin()).collect();
        let mut partials = [0.0; LANES];
        accumulate(&mut partials, 0, &values, |sum, x, _| sum + x);
        let mut columns = Columns::<f32, 3>::new(0.0, count);
        for (index, x) in values.iter().enumerate() {
            columns.row(index)[1] += x;
        }
        let add = |a: f32, b: f32| a + b;
        assert_eq!(columns.merge(add), [0.0, merge(partials, count, add), 0.0]);
    }
}
