//! What a beam search promises, without a model.

use super::{Candidate, Search};
use crate::models::m2m100::{EarlyStopping, GenerationOptions};

const END: u32 = 2;

fn options(early_stopping: EarlyStopping) -> GenerationOptions {
    GenerationOptions { max_length: 6, num_beams: 2, early_stopping, ..Default::default() }
}

fn candidates(list: &[(f32, usize, u32)]) -> Vec<Candidate> {
    list.iter().map(|&(score, beam, token)| Candidate { score, beam, token }).collect()
}

#[test]
fn outputs_that_end_leave_room_for_others() {
    let options = options(EarlyStopping::WhenFull);
    let mut search = Search::new(&options);
    let parents =
        search.advance(&candidates(&[(-1.0, 0, END), (-2.0, 0, 7), (-3.0, 0, 8), (-4.0, 0, 9)]));
    assert_eq!(parents, [0, 0]);
    assert_eq!(search.last_tokens().collect::<Vec<_>>(), [7, 8]);
    assert!(!search.is_done());
    let parents =
        search.advance(&candidates(&[(-2.5, 1, 5), (-2.6, 0, END), (-2.7, 0, 6), (-9.0, 1, 9)]));
    assert_eq!(parents, [1, 0]);
    assert!(search.is_done(), "two of two are finished");
    // -1 / 1 against -2.6 / 2.
    assert_eq!(search.into_best(), [2, END]);
}

#[test]
fn what_ends_below_the_beams_is_no_output() {
    let options = options(EarlyStopping::WhenFull);
    let mut search = Search::new(&options);
    search.advance(&candidates(&[(-1.0, 0, 7), (-2.0, 0, 8), (-3.0, 0, END), (-4.0, 0, 9)]));
    search.advance(&candidates(&[(-2.0, 0, END), (-2.1, 1, END), (-3.0, 0, 4), (-4.0, 0, 5)]));
    assert!(search.is_done());
    assert_eq!(search.into_best(), [2, 7, END]);
}

#[test]
fn the_length_ends_what_does_not_end_by_itself() {
    for early_stopping in [EarlyStopping::WhenFull, EarlyStopping::WhenImpossibleToImprove] {
        let options = options(early_stopping);
        let mut search = Search::new(&options);
        for step in 0..5 {
            assert!(!search.is_done());
            let score = -(step as f32);
            search.advance(&candidates(&[
                (score, 0, 10 + step),
                (score - 1.0, 1, 20 + step),
                (score - 2.0, 0, 30),
                (score - 3.0, 0, 31),
            ]));
        }
        assert!(search.is_done());
        assert_eq!(search.into_best(), [2, 10, 11, 12, 13, 14]);
    }
}

#[test]
fn what_is_no_number_ends_without_harm() {
    let options = options(EarlyStopping::default());
    let mut search = Search::new(&options);
    for _ in 0..5 {
        let _ = search.advance(&candidates(&[(f32::NAN, 0, 7), (f32::NAN, 1, END)]));
    }
    assert!(search.is_done());
    assert!(search.into_best().len() <= 6);
}
