use millstream::DType;

use super::header::{Header, parse};
use super::{Elements, Numpy, NumpyArray, read, read_file, write_file, write_texts};

/// A file of version 1 with this header and these bytes behind it.
fn file(header: &str, bytes: &[u8]) -> Vec<u8> {
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.as_bytes());
    file.extend(bytes);
    file
}

fn dictionary(descr: &str, fortran: &str, shape: &str) -> String {
    format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}\n")
}

fn array(descr: &str, fortran: &str, shape: &str, bytes: &[u8]) -> Result<NumpyArray, String> {
    read(&file(&dictionary(descr, fortran, shape), bytes)[..])
}

#[test]
fn headers_say_type_order_and_shape() {
    let header = parse(&dictionary(">i4", "True", "(2, 3)")).unwrap();
    let elements = Elements::Numbers(DType::I32);
    let expected = Header { elements, big_endian: true, fortran_order: true, shape: vec![2, 3] };
    assert_eq!(header, expected);
    // Other orders, quotes and spaces, as other programs write them.
    let header = parse("{\"shape\":(7,),\"fortran_order\" : False,\"descr\":\"<f2\"}").unwrap();
    assert_eq!((header.elements, header.shape), (Elements::Numbers(DType::F16), vec![7]));
    assert_eq!(parse(&dictionary("|u1", "False", "()")).unwrap().shape, [0usize; 0]);
    assert_eq!(parse(&dictionary("|u1", "False", "(3L, 2L)")).unwrap().shape, [3, 2]);
}

#[test]
fn every_type_of_numbers_is_read_in_both_byte_orders() {
    let types = [
        ("f2", DType::F16),
        ("f4", DType::F32),
        ("f8", DType::F64),
        ("i1", DType::I8),
        ("i2", DType::I16),
        ("i4", DType::I32),
        ("i8", DType::I64),
        ("u1", DType::U8),
        ("u2", DType::U16),
        ("u4", DType::U32),
        ("u8", DType::U64),
    ];
    for (name, dtype) in types {
        let size = dtype.size();
        let little: Vec<u8> = (1..=2 * size as u8).collect();
        let big: Vec<u8> = little.chunks(size).flat_map(|one| one.iter().rev().copied()).collect();
        let native = if cfg!(target_endian = "little") { &little } else { &big };
        for (order, bytes) in [("<", &little), (">", &big)] {
            let array = array(&format!("{order}{name}"), "False", "(2,)", bytes).unwrap();
            assert_eq!(array.elements, Elements::Numbers(dtype));
            assert_eq!((&array.shape[..], &array.bytes), (&[2][..], native), "{order}{name}");
        }
    }
}

#[test]
fn truth_values_are_zero_and_one() {
    let array = array("|b1", "False", "(3,)", &[0, 1, 255]).unwrap();
    assert_eq!((array.elements, array.bytes), (Elements::Numbers(DType::Bool), vec![0, 1, 1]));
}

#[test]
fn arrays_in_column_order_are_transposed_to_row_order() {
    // [[[0, 1], [2, 3], [4, 5]], [[6, 7], [8, 9], [10, 11]]] as asfortranarray keeps it.
    let columns = [0, 6, 2, 8, 4, 10, 1, 7, 3, 9, 5, 11];
    let transposed = array("|u1", "True", "(2, 3, 2)", &columns).unwrap();
    assert_eq!(transposed.bytes, (0..12).collect::<Vec<u8>>());
    let wide: Vec<u8> = columns.iter().flat_map(|&one| u16::from(one).to_be_bytes()).collect();
    let transposed = array(">u2", "True", "(2, 3, 2)", &wide).unwrap();
    let expected: Vec<u8> = (0..12u16).flat_map(u16::to_ne_bytes).collect();
    assert_eq!(transposed.bytes, expected);
    assert_eq!(array("<f4", "True", "(0, 5)", &[]).unwrap().bytes, [0u8; 0]);
}

#[test]
fn texts_end_where_their_zeros_begin() {
    let points: Vec<u8> = "añ\0zz\0".chars().flat_map(|c| u32::from(c).to_le_bytes()).collect();
    let texts = array("<U3", "False", "(2,)", &points).unwrap().texts().unwrap();
    assert_eq!(texts, ["añ", "zz"]);
    let bytes = array("|S3", "False", "(2,)", b"ab\0cde").unwrap();
    assert_eq!(bytes.texts().unwrap(), ["ab", "cde"]);
    assert_eq!(array("<U0", "False", "(2,)", &[]).unwrap().texts().unwrap(), ["", ""]);
    assert!(array("|S1", "False", "(1,)", &[0xff]).unwrap().texts().unwrap_err().contains("UTF-8"));
    let point = array("<U1", "False", "(1,)", &[0xff; 4]).unwrap().texts().unwrap_err();
    assert!(point.contains("code point"), "{point}");
    assert!(array("<f4", "False", "()", &[0; 4]).unwrap().texts().unwrap_err().contains("f32"));
}

#[test]
fn what_is_wrong_with_a_file_is_said() {
    let wrong = |descr: &str, fortran: &str, shape: &str| {
        array(descr, fortran, shape, &[0; 16]).unwrap_err()
    };
    assert!(wrong("<f4", "False", "(5,)").contains("ends after 16 bytes"));
    assert!(wrong("<f4", "False", "(-1,)").contains("size \"-1\""));
    assert!(wrong("<f4", "False", "5").contains("no tuple"));
    assert!(wrong("<f4", "Maybe", "(4,)").contains("fortran_order"));
    assert!(wrong("<f4", "False", "(4611686018427387904, 4)").contains("too large"));
    assert!(wrong("<U4611686018427387904", "False", "(1,)").contains("too large"));
    assert!(wrong("|O", "False", "(1,)").contains("Python objects"));
    assert!(wrong("<c8", "False", "(1,)").contains("not supported"));
    assert!(wrong("<é4", "False", "(1,)").contains("not supported"));
    assert!(wrong("", "False", "(1,)").contains("not supported"));
    let records = file("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", &[0; 4]);
    assert!(read(&records[..]).unwrap_err().contains("records"));
    assert!(read(&file("{}", &[])[..]).unwrap_err().contains("no descr"));
    assert!(read(&b"PK\x03\x04 something else"[..]).unwrap_err().contains("no .npy file"));
    assert!(read(&b""[..]).unwrap_err().contains("too short"));
    let mut version = file("{}", &[]);
    version[6] = 9;
    assert!(read(&version[..]).unwrap_err().contains("version 9"));
}

#[test]
fn a_file_that_is_cut_off_or_changed_anywhere_is_no_panic() {
    let whole = file(&dictionary("<f4", "True", "(2, 2)"), &[7; 16]);
    assert!(read(&whole[..]).is_ok());
    for end in 0..whole.len() {
        assert!(read(&whole[..end]).is_err(), "{end}");
    }
    for at in 0..whole.len() {
        for byte in [0, 1, b'(', b')', b'\'', b'9', 0x80, 0xff] {
            let mut changed = whole.clone();
            changed[at] = byte;
            let _ = read(&changed[..]);
        }
    }
}

#[test]
fn what_is_written_is_read_again() {
    let folder = std::env::temp_dir().join(format!("millstream-npy-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("array.npy");
    let values: Vec<u8> = [1i64, -2, 3].iter().flat_map(|one| one.to_ne_bytes()).collect();
    for shape in [&[3][..], &[1, 3], &[3, 1, 1]] {
        write_file(&path, Numpy::of(DType::I64), shape, &values).unwrap();
        let read = read_file(&path).unwrap();
        let elements = Elements::Numbers(DType::I64);
        assert_eq!(read, NumpyArray { elements, shape: shape.to_vec(), bytes: values.clone() });
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!((bytes.len() - values.len()) % 64, 0, "elements begin aligned");
    }
    write_file(&path, Numpy::of(DType::F32), &[], &[0; 4]).unwrap();
    assert_eq!(read_file(&path).unwrap().shape, [0usize; 0]);
    let texts = ["".to_owned(), "héllo".into()];
    write_texts(&path, &[2, 1], &texts).unwrap();
    assert_eq!(read_file(&path).unwrap().texts().unwrap(), texts);
    assert!(read_file(&folder).unwrap_err().to_string().contains("directory"));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn types_that_numpy_lacks_are_written_as_ones_that_hold_their_numbers() {
    for dtype in [DType::BF16, DType::F8E4M3FN, DType::F8E8M0, DType::F4E2M1] {
        assert_eq!(Numpy::of(dtype), Numpy { dtype: DType::F32, descr: "<f4" });
    }
    assert_eq!(Numpy::of(DType::I4), Numpy { dtype: DType::I8, descr: "|i1" });
    assert_eq!(Numpy::of(DType::U4), Numpy { dtype: DType::U8, descr: "|u1" });
}
