use super::*;

#[test]
fn functions_are_numbered_as_the_program_text_numbers_them() {
    use BinaryOp::*;
    let numbered = [(Add, 0), (Div, 3), (Pow, 4), (Mod, 7), (Prelu, 10), (Equal, 11)];
    let more = [(GreaterEqual, 16), (And, 17), (ShiftLeft, 20), (ShiftRight, 21)];
    assert!(numbered.iter().chain(&more).all(|&(op, number)| op as i32 == number));
}
