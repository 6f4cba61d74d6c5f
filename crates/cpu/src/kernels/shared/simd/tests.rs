use super::*;
use crate::kernels::shared::math::{Float, functions};

struct Functions<'a>(&'a [f32], &'a mut Vec<u32>);

impl SimdFn for Functions<'_> {
    #[inline(always)]
    fn run(self) {
        for function in [Float::exp, Float::tanh, Float::erf, functions::gelu, functions::silu] {
            self.1.extend(self.0.iter().map(|&x| function(x).to_bits()));
        }
    }
}

#[test]
fn a_job_gives_the_same_bits_on_every_machine() {
    let values: Vec<f32> = (-3000..3000).map(|i| i as f32 * 0.003).collect();
    let results: Vec<Vec<u32>> = Isa::available()
        .into_iter()
        .map(|isa| {
            let mut bits = Vec::new();
            // SAFETY: the ISA is available.
            unsafe { vectorized_for(isa, Functions(&values, &mut bits)) };
            bits
        })
        .collect();
    assert!(results.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn a_limit_takes_better_instructions_away_and_adds_none() {
    for (at, &isa) in Isa::ALL.iter().enumerate() {
        assert_eq!(isa.limited_to(None), isa);
        for (limit_at, &limit) in Isa::ALL.iter().enumerate() {
            assert_eq!(isa.limited_to(Some(limit)), Isa::ALL[at.min(limit_at)]);
        }
    }
}

#[test]
fn a_name_of_instructions_that_there_are_not_is_refused_with_those_that_there_are() {
    for &isa in Isa::ALL {
        assert_eq!(Isa::named(isa.name()), Ok(isa));
    }
    let said = Isa::named("mmx").unwrap_err();
    assert!(said.contains("`mmx`") && said.contains("portable"), "{said}");
}
