use super::*;

#[test]
fn the_first_largest_wins_and_nan_is_largest() {
    let of = |op, values: &[f64]| {
        extreme(op, &values.iter().map(|&value| Value::Float(value)).collect::<Vec<_>>())
    };
    assert_eq!(of(ReduceOp::ArgMax, &[1.0, 3.0, 3.0]), 1);
    assert_eq!(of(ReduceOp::ArgMax, &[1.0, f64::NAN, 3.0, f64::NAN]), 1);
    assert_eq!(of(ReduceOp::ArgMin, &[1.0, -3.0, -3.0]), 1);
    assert_eq!(of(ReduceOp::ArgMinLast, &[1.0, -3.0, -3.0]), 2);
    assert_eq!(of(ReduceOp::ArgMaxLast, &[f64::NAN, 1.0, f64::NAN, 3.0]), 2);
}

#[test]
fn log_sum_exp_keeps_infinities() {
    let inf = f64::INFINITY;
    assert_eq!(log_sum_exp(&[-inf, -inf]), -inf);
    assert_eq!(log_sum_exp(&[1.0, inf]), inf);
    assert_eq!(log_sum_exp(&[]), -inf);
    assert!(log_sum_exp(&[f64::NAN, inf]).is_nan());
    assert!((log_sum_exp(&[1000.0, 1000.0]) - 1000.0 - 2f64.ln()).abs() < 1e-12);
}
