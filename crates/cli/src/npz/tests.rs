use super::read;

/// An entry of an archive, with the fields that differ from entry to entry.
struct Entry<'a> {
    name: &'a str,
    method: u16,
    contents: &'a [u8],
    /// Whether sizes and place are in a field of 64 bits.
    large: bool,
}

fn archive(entries: &[Entry<'_>]) -> Vec<u8> {
    let (mut file, mut table) = (Vec::new(), Vec::new());
    for Entry { name, method, contents, large } in entries {
        let start = file.len();
        file.extend(b"PK\x03\x04");
        file.extend([0; 22]);
        file.extend((name.len() as u16).to_le_bytes());
        file.extend(5u16.to_le_bytes());
        file.extend(name.bytes());
        file.extend([9; 5]);
        file.extend(*contents);
        table.extend(b"PK\x01\x02");
        table.extend([0; 6]);
        table.extend(method.to_le_bytes());
        table.extend([0; 8]);
        let size = if *large { u32::MAX } else { contents.len() as u32 };
        table.extend(size.to_le_bytes());
        table.extend(size.to_le_bytes());
        table.extend((name.len() as u16).to_le_bytes());
        table.extend(if *large { 28u16 } else { 0 }.to_le_bytes());
        table.extend([0; 10]);
        table.extend(if *large { u32::MAX } else { start as u32 }.to_le_bytes());
        table.extend(name.bytes());
        if *large {
            table.extend(1u16.to_le_bytes());
            table.extend(24u16.to_le_bytes());
            for number in [contents.len(), contents.len(), start] {
                table.extend((number as u64).to_le_bytes());
            }
        }
    }
    let start = file.len();
    file.extend(&table);
    file.extend(b"PK\x05\x06");
    file.extend([0; 4]);
    file.extend((entries.len() as u16).to_le_bytes());
    file.extend((entries.len() as u16).to_le_bytes());
    file.extend((table.len() as u32).to_le_bytes());
    file.extend((start as u32).to_le_bytes());
    file.extend([0; 2]);
    file
}

fn npy(bytes: &[u8]) -> Vec<u8> {
    let header =
        format!("{{'descr': '|u1', 'fortran_order': False, 'shape': ({},), }}", bytes.len());
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.bytes());
    file.extend(bytes);
    file
}

fn two(large: bool) -> Vec<u8> {
    let (first, second) = (npy(&[1, 2]), npy(&[3]));
    archive(&[
        Entry { name: "a/b.npy", method: 0, contents: &first, large },
        Entry { name: "c.npy", method: 0, contents: &second, large },
    ])
}

#[test]
fn arrays_have_their_names() {
    for large in [false, true] {
        let arrays = read(&two(large)).unwrap();
        let found: Vec<(&str, &[u8])> =
            arrays.iter().map(|(name, array)| (&name[..], &array.bytes[..])).collect();
        assert_eq!(found, [("a/b", &[1, 2][..]), ("c", &[3])], "{large}");
    }
    assert_eq!(read(&archive(&[])).unwrap().len(), 0);
}

#[test]
fn a_comment_behind_the_end_is_skipped() {
    let mut file = two(false);
    file.extend(b"said by somebody");
    assert_eq!(read(&file).unwrap().len(), 2);
}

#[test]
fn compressed_archives_and_other_files_are_refused() {
    let contents = npy(&[1]);
    let otherwise =
        archive(&[Entry { name: "a.npy", method: 12, contents: &contents, large: false }]);
    assert!(read(&otherwise).unwrap_err().contains("numpy.savez_compressed"));
    let broken = archive(&[Entry { name: "a.npy", method: 8, contents: &contents, large: false }]);
    assert!(read(&broken).unwrap_err().contains("not valid"));
    assert!(read(b"").unwrap_err().contains("no .npz file"));
    assert!(read(&contents).unwrap_err().contains("no .npz file"));
    let text = archive(&[Entry { name: "a.txt", method: 0, contents: b"hello", large: false }]);
    assert!(read(&text).unwrap_err().starts_with("a.txt: it is no .npy file"));
}

#[test]
fn an_archive_that_is_cut_off_or_changed_anywhere_is_no_panic() {
    for large in [false, true] {
        let whole = two(large);
        for start in 0..whole.len() {
            let _ = read(&whole[start..]);
            let _ = read(&whole[..start]);
        }
        for at in 0..whole.len() {
            for byte in [0, 1, 0x7f, 0xff] {
                let mut changed = whole.clone();
                changed[at] = byte;
                let _ = read(&changed);
            }
        }
    }
    // A place near the end of all numbers.
    let mut far = two(true);
    let field = far.windows(4).position(|four| four == [1, 0, 24, 0]).unwrap() + 4 + 16;
    far[field..field + 8].fill(0xff);
    assert!(read(&far).is_err());
}
