//! What a Metal compiler refuses and clang does not.

/// Pragmas of Metal's own; any other of that name is an error there.
const PRAGMAS: &[&str] = &[
    "fp math_mode(safe)",
    "fp math_mode(relaxed)",
    "fp math_mode(fast)",
    "fp contract(off)",
    "fp contract(on)",
    "fp contract(fast)",
];

/// Whether every pragma of Metal's is one that Metal has.
pub fn check_pragmas(source: &str) -> Result<(), String> {
    for (index, line) in source.lines().enumerate() {
        if let Some(rest) = line.trim().strip_prefix("#pragma METAL ")
            && !PRAGMAS.contains(&rest.trim())
        {
            return Err(format!("line {}: Metal has no such pragma: {rest}", index + 1));
        }
    }
    Ok(())
}

/// Whether no function takes a pointer or a reference without an address space, which clang gives its generic one. The
/// library of this driver has some: they stand for the machine.
pub fn check_symbols<'a>(mut symbols: impl Iterator<Item = &'a str>) -> Result<(), String> {
    let generic = |symbol: &&str| {
        let own = symbol.contains("N5metal");
        !own && ["PU9CLgeneric", "PKU9CLgeneric", "RU9CLgeneric", "PU9CLgenericK", "RU9CLgenericK"]
            .iter()
            .any(|part| symbol.contains(part))
    };
    match symbols.find(generic) {
        None => Ok(()),
        Some(symbol) => Err(format!(
            "a pointer or reference without an address space among the parameters: {symbol}"
        )),
    }
}

/// Whether something is done with simdgroup matrices. What nobody calls is not among the functions.
pub fn uses_matrices(ir: &str) -> bool {
    let of_matrices =
        |line: &str| line.starts_with("define ") && line.contains("metal16simdgroup_matrix");
    ir.lines().any(of_matrices)
}

/// The bytes of a kernel's static variables, by their mangled names, and where they begin and end.
pub fn group_memory(sizes: &str, kernel: &str) -> (usize, [usize; 2]) {
    let prefix = format!("_ZZ{}{kernel}E", kernel.len());
    let variables = sizes.lines().filter_map(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        let [at, size, _, name] = words[..] else { return None };
        let number = |text: &str| usize::from_str_radix(text, 16).ok();
        name.starts_with(&prefix).then(|| number(at).zip(number(size))).flatten()
    });
    let all = variables.fold((0, [usize::MAX, 0]), |(bytes, [begin, end]), (at, size)| {
        (bytes + size, [begin.min(at), end.max(at + size)])
    });
    if all.0 == 0 { (0, [0, 0]) } else { all }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pragmas_that_metal_lacks_are_refused() {
        assert!(
            check_pragmas("#pragma METAL fp math_mode(safe)\n  #pragma METAL fp contract(off)")
                .is_ok()
        );
        assert!(check_pragmas("#pragma unroll").is_ok());
        let error = check_pragmas("\n#pragma METAL fp math_mode(save)").unwrap_err();
        assert!(error.contains("line 2") && error.contains("save"), "{error}");
    }

    #[test]
    fn group_memory_is_that_of_one_kernel() {
        let sizes = "0000000000000010 0000000000000200 b _ZZ1kE4held\n\
            0000000000000210 0000000000000020 b _ZZ1kE4sums\n\
            0000000000000000 0000000000000010 b _ZZ2k1E4sums\n0000000000001000 T main\n";
        assert_eq!(group_memory(sizes, "k"), (0x220, [0x10, 0x230]));
        assert_eq!(group_memory(sizes, "k1"), (0x10, [0, 0x10]));
        assert_eq!(group_memory(sizes, "none"), (0, [0, 0]));
    }
}
