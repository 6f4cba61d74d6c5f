use millstream_core::{Activation, Command, Layout};

use super::super::gemv::tests::LIMITS;
use super::*;
use crate::Program;

const GPU: Limits = Limits { parallel_groups: 4 * 132, tensor_cores: true, ..LIMITS };

fn operand(place: usize, shape: &[usize]) -> Operand<RawBuffer> {
    let layout = Layout::contiguous(DType::F32, shape).unwrap();
    Operand::new(RawBuffer { address: place << 32, bytes: layout.extent_bytes() }, layout)
}

fn lowered(channels: [usize; 2], side: usize, params: ConvParams, limits: &Limits) -> Launch {
    let [outputs, inputs] = channels;
    let step = params.stride[0] as usize;
    let dst = operand(1, &[2, outputs, side.div_ceil(step), side.div_ceil(step)]);
    let (src, weight) =
        (operand(2, &[2, inputs, side, side]), operand(3, &[outputs, inputs, 1, 1]));
    let bias = operand(4, &[outputs]);
    let command =
        Command::conv(dst, src, weight, Some(bias), None, params, 1.0, Activation::HardSwish);
    crate::lower(&command.unwrap(), 0, limits).unwrap().launches[0].clone()
}

#[test]
fn a_window_of_one_place_is_a_product() {
    let launch = lowered([96, 48], 80, ConvParams::new(2), &GPU);
    // Tiles of channels, images, and tiles of places.
    assert_eq!((launch.key.program(), launch.groups), (Program::MatmulPipelinedF32, [3, 2, 200]));
    assert!(launch.key.constants().any(|constant| constant == ("BY_ROWS", 1)));
}

/// A launch has 65,535 groups along its last axis at most: two million places.
#[test]
fn an_image_of_more_places_than_a_launch_has_groups_is_a_convolution() {
    let program = |side| lowered([32, 32], side, ConvParams::new(2), &GPU).key.program();
    assert_eq!(program(1024), Program::MatmulPipelinedF32);
    assert_ne!(program(1536), Program::MatmulPipelinedF32);
}

#[test]
fn others_are_convolutions() {
    let steps = ConvParams { stride: [2; 3], ..ConvParams::new(2) };
    assert_ne!(lowered([96, 48], 80, steps, &GPU).key.program(), Program::MatmulPipelinedF32);
    let without = Limits { tensor_cores: false, ..GPU };
    let plain = ConvParams::new(2);
    for (channels, side, limits) in
        [([96, 48], 80, &without), ([4, 48], 80, &GPU), ([96, 48], 5, &GPU), ([96, 30], 80, &GPU)]
    {
        let program = lowered(channels, side, plain, limits).key.program();
        assert_ne!(program, Program::MatmulPipelinedF32, "{channels:?} {side}");
    }
}
