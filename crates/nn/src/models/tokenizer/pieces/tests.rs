use proptest::prelude::*;

use super::*;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn the_longest_prefix_is_the_one_that_trying_all_finds(
        words in prop::collection::hash_set("[abé]{0,4}", 0..20),
        text in "[abé]{0,9}",
    ) {
        let numbered = words.iter().zip(0u32..).map(|(word, number)| (word.as_str().into(), number));
        let pieces = Pieces::new(numbered.clone().collect());
        let expected = numbered
            .filter(|(word, _): &(Box<str>, u32)| !word.is_empty() && text.starts_with(&**word))
            .map(|(word, number)| (number, word.len()))
            .max_by_key(|(_, length)| *length);
        prop_assert_eq!(pieces.longest_prefix(&text), expected);
        for (word, number) in words.iter().zip(0u32..) {
            prop_assert_eq!(pieces.get(word), Some(number));
        }
    }
}
