//! Windows of convolution and pooling, as attributes describe them.

use millstream_core::MAX_SPATIAL;
use millstream_graph::Expanded;

use super::common::{refuse, unknown};
use crate::Result;
use crate::node::NodeDef;

/// How much padding there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AutoPad {
    /// What `pads` says.
    Explicit,
    /// So much that the output has the size of the input over the step, the odd one behind.
    SameUpper,
    /// The same, the odd one before.
    SameLower,
    /// None.
    Valid,
}

/// The attributes of a window.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    pub kernel: Option<Vec<i64>>,
    strides: Option<Vec<i64>>,
    dilations: Option<Vec<i64>>,
    pub pads: Option<Vec<i64>>,
    pub auto_pad: AutoPad,
}

/// A window over 1 to 3 axes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Geometry {
    pub kernel: [u32; MAX_SPATIAL],
    pub stride: [u32; MAX_SPATIAL],
    pub dilation: [u32; MAX_SPATIAL],
    pub before: [u32; MAX_SPATIAL],
    pub after: [u32; MAX_SPATIAL],
}

impl Window {
    /// Those of a node.
    pub fn of(node: &NodeDef<'_, '_>) -> Result<Self> {
        let ints = |name: &str| -> Result<Option<Vec<i64>>> {
            Ok(node.attributes.ints(name)?.map(<[i64]>::to_vec))
        };
        let auto_pad = match node.attributes.string_or("auto_pad", "NOTSET")? {
            "NOTSET" | "" => AutoPad::Explicit,
            "SAME_UPPER" => AutoPad::SameUpper,
            "SAME_LOWER" => AutoPad::SameLower,
            "VALID" => AutoPad::Valid,
            other => return unknown("auto_pad", other),
        };
        Ok(Self {
            kernel: ints("kernel_shape")?,
            strides: ints("strides")?,
            dilations: ints("dilations")?,
            pads: ints("pads")?,
            auto_pad,
        })
    }

    /// The window over axes of these sizes. The kernel is given where weights have it.
    pub fn over(&self, sizes: &[usize], kernel: Option<&[usize]>) -> Expanded<Geometry> {
        let axes = sizes.len();
        if !(1..=MAX_SPATIAL).contains(&axes) {
            return refuse(format!("{axes} spatial axes: 1 to {MAX_SPATIAL} are supported"));
        }
        let kernel = match (kernel, &self.kernel) {
            (Some(kernel), _) => Some(kernel.iter().map(|&size| size as i64).collect()),
            (None, own) => own.clone(),
        };
        let mut geometry = Geometry {
            kernel: numbers("kernel_shape", kernel.as_deref(), axes)?,
            stride: numbers("strides", self.strides.as_deref(), axes)?,
            dilation: numbers("dilations", self.dilations.as_deref(), axes)?,
            before: [0; MAX_SPATIAL],
            after: [0; MAX_SPATIAL],
        };
        match (self.auto_pad, &self.pads) {
            (AutoPad::Valid, _) | (AutoPad::Explicit, None) => {}
            (AutoPad::Explicit, Some(pads)) => {
                if pads.len() != 2 * axes {
                    return refuse(format!("{} pads for {axes} axes", pads.len()));
                }
                geometry.before = padding(&pads[..axes])?;
                geometry.after = padding(&pads[axes..])?;
            }
            (AutoPad::SameUpper | AutoPad::SameLower, _) => {
                for (axis, &size) in sizes.iter().enumerate() {
                    let total = geometry.same_padding(axis, size);
                    let (small, large) = (total / 2, total - total / 2);
                    let upper = self.auto_pad == AutoPad::SameUpper;
                    geometry.before[axis] = if upper { small } else { large };
                    geometry.after[axis] = if upper { large } else { small };
                }
            }
        }
        Ok(geometry)
    }
}

impl Geometry {
    /// How far a window reaches.
    pub fn reach(&self, axis: usize) -> u64 {
        let taps = u64::from(self.kernel[axis]).saturating_sub(1);
        taps.saturating_mul(u64::from(self.dilation[axis])).saturating_add(1)
    }

    /// All padding that an output of the size of the input over the step needs.
    fn same_padding(&self, axis: usize, size: usize) -> u32 {
        let stride = u64::from(self.stride[axis].max(1));
        let windows = (size as u64).div_ceil(stride);
        let wanted = windows.saturating_sub(1).saturating_mul(stride) + self.reach(axis);
        u32::try_from(wanted.saturating_sub(size as u64)).unwrap_or(u32::MAX)
    }
}

/// One number for each axis; 1 where none are given.
fn numbers(name: &str, given: Option<&[i64]>, axes: usize) -> Expanded<[u32; MAX_SPATIAL]> {
    let mut found = [1; MAX_SPATIAL];
    let Some(given) = given else { return Ok(found) };
    if given.len() != axes {
        return refuse(format!("{name} has {} numbers for {axes} axes", given.len()));
    }
    for (place, &value) in found.iter_mut().zip(given) {
        match u32::try_from(value) {
            Ok(value) if value > 0 => *place = value,
            _ => return refuse(format!("{name} is {given:?}")),
        }
    }
    Ok(found)
}

fn padding(given: &[i64]) -> Expanded<[u32; MAX_SPATIAL]> {
    let mut found = [0; MAX_SPATIAL];
    for (place, &value) in found.iter_mut().zip(given) {
        match u32::try_from(value) {
            Ok(value) => *place = value,
            Err(_) => return refuse(format!("a padding of {value}")),
        }
    }
    Ok(found)
}
