use super::*;

#[test]
fn known_answers_of_the_paper_are_met() {
    assert_eq!(philox4x32([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
    assert_eq!(
        philox4x32([u32::MAX; 4], [u32::MAX; 2]),
        [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
    );
    assert_eq!(
        philox4x32(
            [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
            [0xa409_3822, 0x299f_31d0]
        ),
        [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
    );
}

#[test]
fn uniform_numbers_lie_in_the_half_open_unit_interval() {
    assert_eq!(uniform(0), 0.0);
    assert_eq!(uniform(u32::MAX), 1.0 - UNIT);
}

#[test]
fn logarithm_agrees_with_double_precision() {
    for step in (1u32..=1 << 24).step_by(997).chain([1, 2, (1 << 24) - 1, 1 << 24]) {
        let value = step as f32 * UNIT;
        let exact = f64::from(value).ln();
        let error = (f64::from(logarithm(value)) - exact).abs();
        assert!(error <= exact.abs() * 2.4e-7, "ln {value}: error {error}");
    }
}

#[test]
fn turn_agrees_with_double_precision() {
    for steps in (0u32..1 << 24).step_by(1009).chain([1 << 21, (1 << 24) - 1]) {
        let angle = f64::from(steps) * f64::from(UNIT) * std::f64::consts::TAU;
        let (sine, cosine) = turn(steps);
        assert!((f64::from(sine) - angle.sin()).abs() < 1.2e-7, "sine at {steps}");
        assert!((f64::from(cosine) - angle.cos()).abs() < 1.2e-7, "cosine at {steps}");
    }
}

#[test]
fn normal_numbers_have_the_moments_of_the_normal_distribution() {
    let count = 200_000u64;
    let mut sums = [0.0f64; 4];
    for position in 0..count {
        let value = f64::from(normal_at(7, position));
        assert!(value.abs() < 5.8);
        for (power, sum) in sums.iter_mut().enumerate() {
            *sum += value.powi(power as i32 + 1);
        }
    }
    let moments = sums.map(|sum| sum / count as f64);
    for (moment, (expected, tolerance)) in
        moments.iter().zip([(0.0, 0.01), (1.0, 0.015), (0.0, 0.04), (3.0, 0.1)])
    {
        assert!((moment - expected).abs() < tolerance, "moments {moments:?}");
    }
}

#[test]
fn uniform_numbers_fill_the_interval_evenly() {
    let mut bins = [0u32; 16];
    for position in 0..160_000 {
        bins[(uniform_at(3, position) * 16.0) as usize] += 1;
    }
    assert!(bins.iter().all(|&count| (9_600..10_400).contains(&count)), "{bins:?}");
}

#[test]
fn extreme_words_stay_finite() {
    for radius in [0, u32::MAX] {
        for angle in [0, 1 << 29, 1 << 31, u32::MAX] {
            let (first, second) = normal_pair(radius, angle);
            assert!(first.is_finite() && second.is_finite());
        }
    }
}
