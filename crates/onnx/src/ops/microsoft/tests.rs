use millstream_graph::Array;

use crate::testing::{answer, microsoft, node_with};

fn floats(count: usize) -> Vec<f32> {
    (0..count).map(|at| (at * 7 % 13) as f32 - 6.0).collect()
}

fn array(values: &[f32], shape: &[usize]) -> Array {
    Array::from_slice(values, shape).unwrap()
}

fn near(found: &[f32], wanted: &[f32]) {
    let fits = found.len() == wanted.len()
        && found.iter().zip(wanted).all(|(a, b)| (a - b).abs() <= 1e-5 + 1e-5 * b.abs());
    assert!(fits, "{found:?} and {wanted:?}");
}

/// The first number of a byte is the high one, and each block has a factor of its own.
#[test]
fn weights_of_4_bits_stand_for_numbers_of_a_table() {
    let (n, k) = (3usize, 11usize);
    let bytes: Vec<u8> = (0..(n * k).div_ceil(2)).map(|at| (at * 73 + 19) as u8).collect();
    let largest = [0.5f32, 2.0, 3.0];
    for (kind, table) in [super::bnb::FP4, super::bnb::NF4].iter().enumerate() {
        let weight = |row: usize, column: usize| {
            let at = row * k + column;
            let byte = bytes[at / 2];
            let place = if at.is_multiple_of(2) { byte >> 4 } else { byte & 15 };
            table[usize::from(place)] as f32 * largest[at / 16]
        };
        for transposed in [true, false] {
            let (wide, out) = if transposed { (k, n) } else { (n, k) };
            let x = floats(2 * wide);
            let attributes = [
                ("N", n as i64),
                ("K", k as i64),
                ("block_size", 16),
                ("quant_type", kind as i64),
                ("transB", transposed.into()),
            ];
            let node = node_with("MatMulBnb4", &["x0", "x1", "x2"], "y", &attributes);
            let given = [
                array(&x, &[2, wide]),
                Array::from_slice(&bytes, &[bytes.len()]).unwrap(),
                array(&largest, &[3]),
            ];
            let (shape, found) = answer(vec![microsoft(node)], &given).unwrap();
            let product = |at: usize| {
                let (row, column) = (at / out, at % out);
                let parts = (0..wide).map(|inner| {
                    let weight =
                        if transposed { weight(column, inner) } else { weight(inner, column) };
                    x[row * wide + inner] * weight
                });
                parts.sum::<f32>()
            };
            assert_eq!(shape, [2, out]);
            near(&found, &(0..2 * out).map(product).collect::<Vec<f32>>());
        }
    }
}

#[test]
fn weights_of_4_bits_that_are_not_there_are_refused() {
    let run = |kind: i64, block: i64, bytes: usize, blocks: usize| {
        let attributes = [("N", 3), ("K", 11), ("block_size", block), ("quant_type", kind)];
        let node = node_with("MatMulBnb4", &["x0", "x1", "x2"], "y", &attributes);
        let packed = Array::from_slice(&vec![0u8; bytes], &[bytes]).unwrap();
        let given = [array(&floats(11), &[1, 11]), packed, array(&floats(blocks), &[blocks])];
        answer(vec![microsoft(node)], &given)
    };
    assert!(run(1, 16, 17, 3).is_ok());
    for (wrong, why) in [
        (run(2, 16, 17, 3), "0 is FP4, 1 is NF4"),
        (run(1, 0, 17, 3), "blocks of 0"),
        (run(1, 16, 16, 3), "16 bytes for 33 numbers"),
        (run(1, 16, 17, 2), "2 blocks of 16 for 33 numbers"),
    ] {
        let error = wrong.unwrap_err();
        assert!(error.contains(why), "{error}");
    }
}

/// Rows of a table with four numbers in a byte, the low ones first, around 2 if nothing else is said.
#[test]
fn rows_of_numbers_of_2_bits_are_gathered() {
    let bytes: Vec<u8> = (0..3 * 8).map(|at| (at * 73 + 19) as u8).collect();
    let scales = [0.5f32, 2.0, 3.0, 0.25, 1.0, 4.0];
    let zeros = [0b0110u8, 0b1100, 0b0001];
    let rows = [2i64, 0];
    for given_zeros in [false, true] {
        let names: &[&str] =
            if given_zeros { &["x0", "x1", "x2", "x3"] } else { &["x0", "x1", "x2"] };
        let attributes = [("bits", 2), ("block_size", 16)];
        let node = node_with("GatherBlockQuantized", names, "y", &attributes);
        let mut given = vec![
            Array::from_slice(&bytes, &[3, 8]).unwrap(),
            Array::vector(&rows).unwrap(),
            array(&scales, &[3, 2]),
        ];
        if given_zeros {
            given.push(Array::from_slice(&zeros, &[3, 1]).unwrap());
        }
        let (shape, found) = answer(vec![microsoft(node)], &given).unwrap();
        let number = |at: usize| {
            let (row, column) = (rows[at / 32] as usize, at % 32);
            let number = bytes[row * 8 + column / 4] >> (column % 4 * 2) & 3;
            let zero = if given_zeros { zeros[row] >> (column / 16 * 2) & 3 } else { 2 };
            (f32::from(number) - f32::from(zero)) * scales[row * 2 + column / 16]
        };
        assert_eq!(shape, [2, 32]);
        near(&found, &(0..64).map(number).collect::<Vec<f32>>());
    }
}

/// A layer without keys of its own uses those of another, which have their angles already.
#[test]
fn queries_see_the_keys_of_another_layer() {
    let (heads, width, length, past) = (2usize, 16usize, 3usize, 6usize);
    let query = array(&floats(length * heads * width), &[1, length, heads * width]);
    let all = floats(past * width);
    let (keys, none) = (array(&all, &[1, 1, past, width]), array(&[], &[1, 0, width]));
    let angles = array(&floats(32 * width / 2), &[32, width / 2]);
    let number = |value: i32, shape: &[usize]| Array::from_slice(&[value], shape).unwrap();
    let attributes = [("num_heads", 2), ("kv_num_heads", 1), ("do_rotary", 1)];
    let names = ["x0", "x1", "x1", "x2", "x2", "x3", "x4", "x5", "x5"];
    let node = node_with("GroupQueryAttention", &names, "y", &attributes);
    let lengths = |total: i32| [number(total - 1, &[1]), number(total, &[])];
    let run = |total: i32, output: usize| {
        let mut node = microsoft(node.clone());
        node.output =
            (0..3).map(|at| if at == output { "y".into() } else { format!("o{at}") }).collect();
        let [end, total] = lengths(total);
        answer(vec![node], &[query.clone(), none.clone(), keys.clone(), end, total, angles.clone()])
    };
    assert_eq!(run(6, 1).unwrap(), (vec![1, 1, past, width], all.clone()), "keys stay");
    // The same as a call that has the last keys as its own, if nothing is transposed.
    let plain = |names: &[&str], given: &[Array]| {
        let attributes = [("num_heads", 2), ("kv_num_heads", 1)];
        let node = node_with("GroupQueryAttention", names, "y", &attributes);
        answer(vec![microsoft(node)], given).unwrap().1
    };
    let [end, total] = lengths(6);
    let given = [query.clone(), none.clone(), keys.clone(), end.clone(), total.clone()];
    let shared = plain(&["x0", "x1", "x1", "x2", "x2", "x3", "x4"], &given);
    let before = array(&all[..3 * width], &[1, 1, 3, width]);
    let own = array(&all[3 * width..], &[1, 3, width]);
    let given = [query.clone(), own, before, end, total];
    near(&shared, &plain(&["x0", "x1", "x1", "x2", "x2", "x3", "x4"], &given));
    let error = run(7, 0).unwrap_err();
    assert!(error.contains("6 past keys and no new ones, where 7 in all are said"), "{error}");
}

/// One head of queries is asked of two states.
#[test]
fn attention_by_a_state_is_known_in_this_domain() {
    let run = |attributes: &[(&str, i64)]| {
        let all = [&[("q_num_heads", 1), ("kv_num_heads", 2)], attributes].concat();
        let node = node_with("LinearAttention", &["x0", "x1", "x2"], "y", &all);
        let given = [
            array(&[1.0, 2.0], &[1, 1, 2]),
            array(&[3.0, 4.0, 5.0, -6.0], &[1, 1, 4]),
            array(&[0.5, 7.0], &[1, 1, 2]),
        ];
        answer(vec![microsoft(node)], &given)
    };
    let (shape, found) = run(&[]).unwrap();
    assert_eq!(shape, [1, 1, 2]);
    let root = 2f32.sqrt();
    near(&found, &[11.0 * 0.5 / root, -7.0 * 7.0 / root]);
    let error = run(&[("state_window", 2)]).unwrap_err();
    assert!(error.contains("state_window is 2; only 0 is supported"), "{error}");
}

#[test]
fn convolutions_with_a_state_are_known_in_this_domain() {
    let run = |attributes: &[(&str, i64)]| {
        let node = node_with("CausalConvWithState", &["x0", "x1"], "y", attributes);
        let given = [array(&[1.0, 2.0, 3.0], &[1, 1, 3]), array(&[10.0, 1.0], &[1, 1, 2])];
        answer(vec![microsoft(node)], &given)
    };
    assert_eq!(run(&[("ndim", 1)]), Ok((vec![1, 1, 3], vec![1.0, 12.0, 23.0])));
    for (attribute, value) in
        [("ndim", 2), ("dilation", 2), ("channels_last", 1), ("state_window", 1)]
    {
        let error = run(&[(attribute, value)]).unwrap_err();
        assert!(error.contains(&format!("{attribute} is {value}; only")), "{error}");
    }
}

#[test]
fn rare_operators_are_what_their_text_says() {
    let run = |operator: &str, names: &[&str], given: &[Array]| {
        answer(vec![microsoft(node_with(operator, names, "y", &[]))], given)
    };
    let x = array(&[1.0, 2.0, 3.0, 4.0], &[1, 2, 2]);
    let added = run("BiasAdd", &["x0", "x1", "x0"], &[x.clone(), array(&[10.0, 20.0], &[2])]);
    assert_eq!(added, Ok((vec![1, 2, 2], vec![12.0, 24.0, 16.0, 28.0])));

    let (shape, found) = run("Inverse", &["x0"], &[x]).unwrap();
    assert_eq!(shape, [1, 2, 2]);
    near(&found, &[-2.0, 1.0, 1.5, -0.5]);
    let error = run("Inverse", &["x0"], &[array(&[1.0, 2.0, 2.0, 4.0], &[2, 2])]).unwrap_err();
    assert!(error.contains("a matrix that has no inverse"), "{error}");
    assert_eq!(run("Inverse", &["x0"], &[array(&[], &[0, 0])]), Ok((vec![0, 0], vec![])));
    for (shape, why) in [(&[2, 3][..], "the matrix is not square"), (&[6], "a matrix is needed")] {
        let error = run("Inverse", &["x0"], &[array(&[1.0; 6], shape)]).unwrap_err();
        assert!(error.contains(why), "{error}");
    }

    let (a, b) = (array(&[0.0, 3.0], &[1, 2]), array(&[4.0, 0.0, 0.0, 3.0], &[2, 2]));
    let apart = run("CDist", &["x0", "x1"], &[a.clone(), b]);
    assert_eq!(apart, Ok((vec![1, 2], vec![25.0, 0.0])));
    let error = run("CDist", &["x0", "x1"], &[a, array(&[1.0], &[1])]).unwrap_err();
    assert!(error.contains("two matrices are needed"), "{error}");

    let image = array(&[1.0, 2.0], &[1, 1, 1, 2]);
    let weight = array(&[1.0, 10.0, 100.0], &[1, 1, 1, 3]);
    let spread = |pads: &[i64]| {
        let given = [image.clone(), weight.clone(), Array::vector(pads).unwrap()];
        run("ConvTransposeWithDynamicPads", &["x0", "x1", "x2"], &given)
    };
    assert_eq!(spread(&[0, 0, 0, 0]), Ok((vec![1, 1, 1, 4], vec![1.0, 12.0, 120.0, 200.0])));
    assert_eq!(spread(&[0, 1, 0, 2]), Ok((vec![1, 1, 1, 1], vec![12.0])));
    assert!(spread(&[1, 1]).unwrap_err().contains("2 pads for 2 axes"));
}

#[test]
fn parts_of_images_get_one_size() {
    let run = |which: i32, size: &[i32]| {
        let node = node_with("CropAndResize", &["x0", "x1", "x2", "x3"], "y", &[]);
        let given = [
            array(&[1.0, 2.0, 3.0, 4.0], &[1, 1, 2, 2]),
            array(&[0.0, 0.0, 1.0, 2.0], &[1, 4]),
            Array::from_slice(&[which], &[1]).unwrap(),
            Array::from_slice(size, &[size.len()]).unwrap(),
        ];
        answer(vec![microsoft(node)], &given)
    };
    // The last column is beyond the image.
    let wanted = vec![1.0, 2.0, 0.0, 2.0, 3.0, 0.0, 3.0, 4.0, 0.0];
    assert_eq!(run(0, &[3, 3]), Ok((vec![1, 1, 3, 3], wanted)));
    assert!(run(1, &[3, 3]).unwrap_err().contains("beyond the 1 that there are"));
    for size in [&[0, 3][..], &[-1, 3], &[3]] {
        assert!(run(0, size).unwrap_err().contains("not a height and a width"));
    }
    assert!(run(0, &[i32::MAX, i32::MAX]).is_err());
}
