//! Plain tables for terminals.

/// Prints rows under a header, columns as wide as their widest cell, numbers to the right.
pub(crate) fn print(header: &[&str], rows: &[Vec<String>]) {
    print!("{}", render(header, rows));
}

fn render(header: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([header[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let header: Vec<String> = header.iter().map(ToString::to_string).collect();
    let mut text = String::new();
    for row in std::iter::once(&header).chain(rows) {
        let numeric = |cell: &str| cell.starts_with(|first: char| first.is_ascii_digit());
        let cells: Vec<String> =
            row.iter()
                .zip(&widths)
                .map(|(cell, &width)| {
                    if numeric(cell) {
                        format!("{cell:>width$}")
                    } else {
                        format!("{cell:<width$}")
                    }
                })
                .collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests;
