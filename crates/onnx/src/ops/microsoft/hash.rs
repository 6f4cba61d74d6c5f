//! MurmurHash3 of each element, in 32 bits. The host computes it.

use millstream_core::DType;
use millstream_graph::Array;

use super::super::common::{Made, refusal};
use super::super::host::host_operator;
use crate::node::NodeDef;
use crate::registry::Table;

pub(super) const TABLE: Table = &[("MurmurHash3", hashes)];

fn hashes(node: &mut NodeDef<'_, '_>) -> Made {
    let positive = node.attributes.flag("positive", true)?;
    let seed = node.attributes.int_or("seed", 0)?;
    let Ok(seed) = u32::try_from(seed) else {
        return Err(refusal(format!("seed is {seed}: it must have 32 bits")));
    };
    host_operator(node, move |inputs| {
        let (shape, found): (_, Vec<u32>) = match inputs.strings(0) {
            Ok(texts) => {
                let found = texts.values().iter().map(|text| hash(text.as_bytes(), seed));
                (texts.shape().to_vec(), found.collect())
            }
            Err(_) => {
                let array = inputs.array(0)?;
                let elements = array.bytes().chunks_exact(array.dtype().size());
                (array.shape().to_vec(), elements.map(|bytes| hash(bytes, seed)).collect())
            }
        };
        let dtype = if positive { DType::U32 } else { DType::I32 };
        let bytes: Vec<u8> = found.into_iter().flat_map(u32::to_ne_bytes).collect();
        Ok(vec![Array::new(dtype, &shape, bytes)?.into()])
    })
}

/// Austin Appleby's function for machines of 32 bits.
fn hash(bytes: &[u8], seed: u32) -> u32 {
    let mixed =
        |word: u32| word.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
    let words = bytes.chunks_exact(4);
    let rest = words.remainder();
    let mut hash = words.fold(seed, |hash, word| {
        let word = word.iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte));
        (hash ^ mixed(word)).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64)
    });
    // Of fewer bytes the word is 0, which changes nothing.
    hash ^= mixed(rest.iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte)));
    hash ^= bytes.len() as u32;
    hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}

#[test]
fn hashes_are_those_of_the_published_function() {
    assert_eq!(hash(b"", 0), 0);
    assert_eq!(hash(b"", 1), 0x514e_28b7);
    assert_eq!(hash(b"test", 0), 0xba6b_d213);
    assert_eq!(hash(b"Hello, world!", 0x9747_b28c), 0x2488_4cba);
    assert_eq!(hash(b"abc", 0), 0xb3dd_93fa);
}
