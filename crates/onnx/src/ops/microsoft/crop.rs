//! CropAndResize: parts of images, each in one size. The host computes it.

use super::super::common::{Made, refusal, unknown};
use super::super::host::host_operator;
use super::super::on_host::floats;
use crate::node::NodeDef;
use crate::registry::Table;

pub(super) const TABLE: Table = &[("CropAndResize", crop_and_resize)];

fn crop_and_resize(node: &mut NodeDef<'_, '_>) -> Made {
    let nearest = match node.attributes.string_or("mode", "bilinear")? {
        "bilinear" => false,
        "nearest" => true,
        other => return unknown("mode", other),
    };
    let outside = f64::from(node.attributes.float_or("extrapolation_value", 0.0)?);
    host_operator(node, move |inputs| {
        let (image, boxes) = (inputs.array(0)?, inputs.array(1)?);
        let (&[batch, channels, height, width], &[regions, 4]) = (image.shape(), boxes.shape())
        else {
            return Err(refusal("images and boxes of four numbers are needed"));
        };
        let (indices, wanted) = (inputs.array(2)?.to_i64s()?, inputs.array(3)?.to_i64s()?);
        let size = |value: i64| usize::try_from(value).ok().filter(|size| *size > 0);
        let sizes: Option<Vec<usize>> = wanted.iter().map(|&value| size(value)).collect();
        let Some(&[rows, columns]) = sizes.as_deref() else {
            return Err(refusal(format!("crop_size is {wanted:?}, not a height and a width")));
        };
        if indices.len() != regions {
            return Err(refusal(format!("{} images for {regions} boxes", indices.len())));
        }
        let (pixels, boxes) = (image.to_f64s()?, boxes.to_f64s()?);
        let planes = regions.saturating_mul(channels);
        let mut found: Vec<f64> = inputs.room(planes, rows.saturating_mul(columns))?;
        for (corners, &index) in boxes.chunks_exact(4).zip(&indices) {
            let index = usize::try_from(index).ok().filter(|index| *index < batch);
            let Some(index) = index else {
                return Err(refusal(format!("an image beyond the {batch} that there are")));
            };
            let ys: Vec<_> =
                (0..rows).map(|at| place(at, rows, [corners[0], corners[2]], height)).collect();
            let xs: Vec<_> = (0..columns)
                .map(|at| place(at, columns, [corners[1], corners[3]], width))
                .collect();
            for channel in 0..channels {
                let plane = &pixels[(index * channels + channel) * height * width..];
                for y in &ys {
                    found.extend(xs.iter().map(|x| match (y, x) {
                        (Some(y), Some(x)) => sampled(plane, [height, width], [*y, *x], nearest),
                        _ => outside,
                    }));
                }
            }
        }
        Ok(vec![floats(image.dtype(), &[regions, channels, rows, columns], found)?.into()])
    })
}

/// Where a number of a line is taken from, unless that is outside. As in onnxruntime, in `f32`: what is outside by a rounding there
/// is outside here.
fn place(at: usize, count: usize, corners: [f64; 2], size: usize) -> Option<f32> {
    let ([from, to], last) = (corners.map(|corner| corner as f32), size as f32 - 1.0);
    let place = match count {
        1 => 0.5 * (from + to) * last,
        _ => from * last + at as f32 * ((to - from) * last / (count as f32 - 1.0)),
    };
    (0.0..=last).contains(&place).then_some(place)
}

fn sampled(plane: &[f64], [height, width]: [usize; 2], [y, x]: [f32; 2], nearest: bool) -> f64 {
    // `f32` rounds sizes beyond 2²⁴: the last place may be one that is not there.
    let within = |place: f32, size: usize| (place as usize).min(size - 1);
    let pixel = |y: f32, x: f32| plane[within(y, height) * width + within(x, width)];
    if nearest {
        return pixel(y.round(), x.round());
    }
    let (right, below) = (f64::from(x - x.floor()), f64::from(y - y.floor()));
    let line = |y: f32| {
        let left = pixel(y, x.floor());
        left + (pixel(y, x.ceil()) - left) * right
    };
    let above = line(y.floor());
    above + (line(y.ceil()) - above) * below
}

#[test]
fn a_place_that_was_rounded_beyond_the_image_is_its_last() {
    let row = [1.0, 2.0, 3.0];
    assert_eq!(place(1, 2, [0.0, 1.0], (1 << 24) + 3), Some(16_777_220.0));
    for nearest in [true, false] {
        assert_eq!(sampled(&row, [1, 3], [0.0, 3.0], nearest), 3.0);
    }
}
