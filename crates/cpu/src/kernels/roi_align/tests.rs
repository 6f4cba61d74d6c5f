use millstream_core::Command;

use super::*;
use crate::kernels::shared::testing::{Tensor, fault, run};

const PARAMS: RoiAlignParams =
    RoiAlignParams { size: [1, 2], samples: 1, scale: 0.5, mode: RoiMode::Mean, half_pixel: false };

fn align(params: RoiAlignParams, region: [f32; 4]) -> Vec<f32> {
    let src = Tensor::new(&[1, 1, 2, 3], &[-1.0f32, -2.0, -4.0, -8.0, -16.0, -32.0]);
    let (rois, batches) = (Tensor::new(&[1, 4], &region), Tensor::new(&[1], &[0i32]));
    let dst = Tensor::output(DType::F32, &[1, 1, 1, 2]);
    let inputs = (src.operand(), rois.operand(), batches.operand());
    run(Command::roi_align(dst.operand(), inputs.0, inputs.1, inputs.2, params));
    dst.values()
}

#[test]
fn samples_lie_in_the_middle_of_their_parts() {
    // One element high, two wide: samples at (0.5, 0.5) and (0.5, 1.5).
    let region = [0.0, 0.0, 4.0, 2.0];
    assert_eq!(align(PARAMS, region), [-27.0 / 4.0, -54.0 / 4.0]);
    // Half an element up and to the left: (0, 0) and (0, 1).
    let half = RoiAlignParams { half_pixel: true, ..PARAMS };
    assert_eq!(align(half, region), [-1.0, -2.0]);
    // The largest of four terms, not of four sums.
    let most = RoiAlignParams { mode: RoiMode::Max, ..PARAMS };
    assert_eq!(align(most, region), [-0.25, -0.5]);
}

#[test]
fn regions_have_an_element_at_least_unless_shifted() {
    // Samples at (0.5, 1.25) and (0.5, 1.75).
    let adaptive = RoiAlignParams { samples: 0, ..PARAMS };
    assert_eq!(align(adaptive, [2.0, 0.0, 2.0, 0.0]), [-11.25, -15.75]);
    let half = RoiAlignParams { half_pixel: true, ..adaptive };
    assert_eq!(align(half, [2.0, 0.0, 2.0, 0.0]), [0.0, 0.0]);
}

#[test]
fn a_region_outside_the_batch_is_a_fault_that_names_it() {
    let (rois, dst) =
        (Tensor::new(&[1, 4], &[0.0f32; 4]), Tensor::output(DType::F32, &[1, 1, 1, 2]));
    let src = Tensor::new(&[2, 1, 1, 1], &[1.0f32, 2.0]);
    for index in [2, -1, i64::MAX, i64::MIN] {
        let batches = Tensor::new(&[1], &[index]);
        let inputs = (src.operand(), rois.operand(), batches.operand());
        let command = Command::roi_align(dst.operand(), inputs.0, inputs.1, inputs.2, PARAMS);
        assert_eq!(fault(command), format!("index {index} is outside an axis of size 2"));
    }
}
