use std::time::Duration;

use millstream::graph::Pass;

use super::{passes, timing};

#[test]
fn passes_are_left_out_by_name() {
    let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    let (first, second) = (Pass::ALL[0].name(), Pass::ALL[1].name());
    let left = passes(&names(&[first, second])).unwrap();
    assert_ne!(left, passes(&[]).unwrap());
    assert_ne!(left, passes(&names(&[first])).unwrap());
    assert_ne!(left, passes(&names(&["all"])).unwrap());
    let unknown = passes(&names(&["nonsense"])).unwrap_err().to_string();
    assert!(unknown.contains("nonsense") && unknown.contains(first), "{unknown}");
}

#[test]
fn the_first_call_is_told_from_the_others() {
    let ms = Duration::from_millis;
    let line = timing(ms(5), &[vec![ms(100), ms(3), ms(1)], vec![ms(90), ms(2), ms(7)]]);
    assert_eq!(
        line,
        "opened in 5.00 ms, first call 100.00 ms with compiling; 4 more: median 3.00 ms, from 1.00 ms to 7.00 ms"
    );
    let line = timing(ms(5), &[vec![ms(100)]]);
    assert_eq!(line, "opened in 5.00 ms, first call 100.00 ms with compiling");
}
