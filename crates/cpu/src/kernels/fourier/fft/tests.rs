use super::*;

#[test]
fn every_length_follows_the_definition() {
    let lengths = (1..=70).chain([97, 100, 128, 211, 360, 397, 512, 1021]);
    for length in lengths {
        let value = |k: usize| ((k * 37 + 11) % 19) as f64 / 9.0 - 1.0;
        let from: Vec<Complex<f64>> =
            (0..length).map(|k| Complex { re: value(k), im: value(k + 5) }).collect();
        let fft = Fft::new(length).unwrap();
        let mut to = vec![Complex::ZERO; length];
        let mut scratch = vec![Complex::ZERO; fft.scratch()];
        fft.transform(&from, &mut to, &mut scratch);
        for (output, found) in to.iter().enumerate() {
            let mut sum = Complex::ZERO;
            for (k, &value) in from.iter().enumerate() {
                sum = sum + value * Complex::root(k * output, length);
            }
            let error = (sum - *found).re.abs().max((sum - *found).im.abs());
            assert!(error < 1e-11, "length {length}, output {output}: {error:e}");
        }
    }
}
