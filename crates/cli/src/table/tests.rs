use super::*;

#[test]
fn columns_line_up() {
    let rows = [vec!["basic".into(), "7".into()], vec!["x".into(), "1234".into()]];
    assert_eq!(render(&["name", "ops"], &rows), "name   ops\nbasic     7\nx      1234\n");
}
