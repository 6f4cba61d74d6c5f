//! Shapes and layouts that every elementwise operation is run with.

use crate::View;

/// An output and one or two inputs that broadcast to it.
pub(super) struct Geometry {
    pub name: &'static str,
    pub shape: &'static [usize],
    pub output: View,
    pub a: (&'static [usize], View),
    pub b: (&'static [usize], View),
}

const fn geometry(
    name: &'static str,
    shape: &'static [usize],
    output: View,
    a: (&'static [usize], View),
    b: (&'static [usize], View),
) -> Geometry {
    Geometry { name, shape, output, a, b }
}

const RANK_8: &[usize] = &[2, 1, 2, 3, 1, 2, 1, 2];

/// Between them, these meet every view as output and as input, whole vectors and tails, each way to
/// broadcast, and each degenerate shape.
pub(super) const GEOMETRIES: &[Geometry] = {
    use View::*;
    &[
        geometry("rank-0", &[], Dense, (&[], Dense), (&[], Shifted)),
        geometry("one", &[1], Shifted, (&[1], Dense), (&[], Shifted)),
        geometry("row", &[67], Dense, (&[67], Dense), (&[67], Dense)),
        geometry("row-shifted", &[67], Shifted, (&[67], Shifted), (&[67], Dense)),
        geometry("row-stepped", &[35], Stepped, (&[35], Dense), (&[35], Stepped)),
        geometry("row-repeated", &[33], Dense, (&[33], Repeated), (&[33], Stepped)),
        geometry("matrix-by-row", &[3, 21], Dense, (&[3, 21], Dense), (&[21], Dense)),
        geometry("row-by-column", &[5, 17], Dense, (&[17], Shifted), (&[5, 1], Dense)),
        geometry("column-by-matrix", &[5, 17], Stepped, (&[5, 1], Dense), (&[5, 17], Transposed)),
        geometry("matrix-by-scalar", &[3, 11], Dense, (&[3, 11], Dense), (&[], Dense)),
        geometry("scalar-by-matrix", &[3, 11], Mixed, (&[1, 1], Dense), (&[3, 11], Mixed)),
        geometry("transposed", &[9, 7], Dense, (&[9, 7], Transposed), (&[9, 7], Dense)),
        geometry("into-transposed", &[9, 7], Transposed, (&[9, 7], Dense), (&[9, 7], Transposed)),
        geometry("mixed", &[3, 4, 5], Mixed, (&[3, 4, 5], Stepped), (&[4, 1], Mixed)),
        geometry("repeated", &[3, 4, 5], Dense, (&[3, 4, 5], Repeated), (&[1, 4, 1], Dense)),
        geometry("ones", &[1, 6, 1, 2], Stepped, (&[1, 6, 1, 2], Transposed), (&[6, 1, 1], Dense)),
        geometry("rank-8", RANK_8, Dense, (RANK_8, Dense), (&[3, 1, 2, 1, 1], Dense)),
        geometry("rank-8-mixed", RANK_8, Mixed, (RANK_8, Transposed), (RANK_8, Stepped)),
        geometry("empty", &[3, 0, 2], Dense, (&[3, 0, 2], Dense), (&[2], Dense)),
        geometry("empty-by-broadcast", &[0, 4], Shifted, (&[1, 4], Dense), (&[0, 1], Dense)),
    ]
};
