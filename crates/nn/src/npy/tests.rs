use millstream_core::{DType, Device};
use proptest::prelude::*;

use super::header::{Header, write};
use crate::{Error, Tensor, f16};

fn file(header: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.bytes());
    bytes.extend(data);
    bytes
}

#[test]
fn every_type_makes_the_round_trip() {
    let device = Device::cpu().unwrap();
    for dtype in DType::COMPUTED.into_iter().filter(|&dtype| dtype != DType::BF16) {
        let tensor = Tensor::arange(0.0, 12.0, 1.0, DType::F32, &device).unwrap();
        let tensor = tensor.to_dtype(dtype).unwrap().reshape(&[3, 4]).unwrap().t().unwrap();
        let bytes = tensor.to_npy().unwrap();
        let (_, data) = Header::read(&bytes).unwrap();
        assert_eq!((bytes.len() - data.len()) % 64, 0);
        let back = Tensor::from_npy(&bytes, &device).unwrap();
        assert_eq!((back.shape(), back.dtype()), (&[4, 3][..], dtype));
        assert_eq!(back.to_bytes().unwrap(), tensor.to_bytes().unwrap());
    }
    assert!(Tensor::zeros(&[1], DType::BF16, &device).unwrap().to_npy().is_err());
    assert!(write(DType::BF16, &[]).is_none());
}

#[test]
fn other_orders_of_bytes_and_axes_are_read() {
    let device = Device::cpu().unwrap();
    let header = "{\"descr\": '>f2', 'fortran_order': True, 'shape': (2,3)}";
    let data: Vec<u8> = (0..6).flat_map(|i| f16::from_f32(i as f32).to_be_bytes()).collect();
    let tensor = Tensor::from_npy(&file(header, &data), &device).unwrap();
    let values = tensor.to_dtype(DType::F32).unwrap().to_vec::<f32>().unwrap();
    assert_eq!(values, [0.0, 2.0, 4.0, 1.0, 3.0, 5.0]);
}

#[test]
fn hostile_headers_are_errors() {
    let device = Device::cpu().unwrap();
    let dictionary = |descr: &str, shape: &str| {
        format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}")
    };
    let headers = [
        String::new(),
        "{".into(),
        "{}".into(),
        "{'shape': ()}".into(),
        "{'descr".into(),
        dictionary("'<f4'", "(18446744073709551615, 18446744073709551615)"),
        dictionary("'<f4'", "(99999999999999999999999,)"),
        dictionary("'<f4'", "(4611686018427387904, 4)"),
        dictionary("'<f4'", "(-1,)"),
        dictionary("'<f4'", "(1,1,1,1,1,1,1,1,1)"),
        dictionary("'<f4'", "(2,)"),
        dictionary("'<f4'", "((1,),)"),
        dictionary("'|O'", "(1,)"),
        dictionary("''", "(1,)"),
        dictionary("'é4'", "(1,)"),
        dictionary("[('a', '<f4')]", "(1,)"),
    ];
    for header in headers {
        let result = Tensor::from_npy(&file(&header, &[0; 4]), &device);
        assert!(matches!(result, Err(Error::Format { .. })), "{header}: {result:?}");
    }
    for bytes in
        [&b""[..], b"\x93NUMPY", b"\x93NUMPY\x02\x00\xff\xff\xff\xff", b"\x93NUMPY\x09\x00\0\0"]
    {
        assert!(matches!(Tensor::from_npy(bytes, &device), Err(Error::Format { .. })));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..Default::default() })]

    #[test]
    fn damaged_files_are_errors_or_consistent(
        changes in prop::collection::vec((0usize..90, any::<u8>()), 1..6),
        length in 0usize..200,
    ) {
        let device = Device::cpu().unwrap();
        let tensor = Tensor::ones(&[2, 3], DType::F32, &device).unwrap();
        let mut bytes = tensor.to_npy().unwrap();
        for (place, byte) in changes {
            bytes[place] = byte;
        }
        bytes.truncate(length.max(1));
        if let Ok(read) = Tensor::from_npy(&bytes, &device) {
            prop_assert_eq!(read.to_bytes().unwrap().len(), read.layout().dense_bytes());
        }
    }
}
