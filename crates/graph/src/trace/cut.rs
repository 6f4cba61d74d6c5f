//! How the elements of a layout lie among dense ones, in words of views.

use millstream_core::{Layout, MAX_RANK};

use crate::view::{Sizes, View};

/// A part of dense elements: those are seen as a grid, from each axis of which some indices are taken.
#[derive(Debug, PartialEq)]
pub(super) struct Cut {
    /// The shape in which the dense elements are seen.
    pub grid: Sizes,
    /// The first index, the number of indices and their distance, for each axis of the grid.
    pub taken: Vec<(usize, usize, usize)>,
}

/// An axis of a layout that is neither repeated nor of size 1.
#[derive(Clone, Copy)]
struct Axis {
    size: usize,
    stride: usize,
    /// Which axis of the layout it is.
    at: usize,
}

/// The axes of a layout that say something, those with the longest strides first.
fn axes(layout: &Layout) -> Vec<Axis> {
    let sizes = layout.shape().iter().zip(layout.strides()).enumerate();
    let mut axes: Vec<Axis> = sizes
        .filter(|(_, (size, stride))| **size != 1 && **stride != 0)
        .map(|(at, (&size, &stride))| Axis { size, stride, at })
        .collect();
    axes.sort_by_key(|axis| std::cmp::Reverse(axis.stride));
    axes
}

/// The order of all axes in memory, those with the longest strides first.
pub(super) fn memory_order(layout: &Layout) -> Sizes {
    let mut order: Sizes = (0..layout.rank()).collect();
    order.sort_by_key(|&axis| std::cmp::Reverse(layout.strides()[axis]));
    order
}

/// Where a layout that is written lies among `elements` dense ones. Axes that lie as one run are one axis of the grid, so
/// that parts of one tensor have one grid.
pub(super) fn cut_of_written(layout: &Layout, elements: usize) -> Option<Cut> {
    let mut runs: Vec<Axis> = Vec::new();
    for axis in axes(layout) {
        match runs.last_mut() {
            Some(last) if last.stride == axis.stride.checked_mul(axis.size)? => {
                *last = Axis { size: last.size.checked_mul(axis.size)?, ..axis };
            }
            _ => runs.push(axis),
        }
    }
    cut(&runs, layout.offset(), elements, &[])
}

/// The cut that these axes make from `elements` dense ones. Where an axis has gaps that do not divide the elements, the dense axis below it
/// is one of `strides`.
fn cut(axes: &[Axis], offset: usize, elements: usize, strides: &[usize]) -> Option<Cut> {
    let (mut left, mut rest) = (elements, offset);
    let mut made = Cut { grid: Sizes::new(), taken: Vec::new() };
    for axis in axes {
        let divides = |unit: &usize| *unit > 0 && left % unit == 0 && axis.stride % unit == 0;
        let unit = Some(axis.stride).filter(divides).or_else(|| {
            strides.iter().copied().filter(|unit| *unit < axis.stride && divides(unit)).max()
        })?;
        let (count, start, step) = (left / unit, rest / unit, axis.stride / unit);
        let last = start.checked_add(axis.size.checked_sub(1)?.checked_mul(step)?)?;
        if last >= count {
            return None;
        }
        made.grid.push(count);
        made.taken.push((start, axis.size, step));
        (left, rest) = (unit, rest % unit);
    }
    if left > 1 {
        made.grid.push(left);
        made.taken.push((rest, 1, 1));
    }
    (made.grid.len() <= MAX_RANK).then_some(made)
}

/// A layout without repeated axes: those have size 1.
pub(super) fn single(layout: &Layout) -> Option<Layout> {
    let sizes = layout.shape().iter().zip(layout.strides());
    let shape: Sizes =
        sizes.map(|(&size, &stride)| if stride == 0 && size > 1 { 1 } else { size }).collect();
    if layout.is_contiguous() {
        return Some(*layout);
    }
    Layout::strided(layout.dtype(), &shape, layout.strides(), layout.offset()).ok()
}

/// The views that make this layout, which repeats nothing, of dense elements of a shape. The first of them comes first.
pub(super) fn views(layout: &Layout, shape: &[usize]) -> Option<Vec<View>> {
    let elements = shape.iter().product();
    if layout.is_contiguous() && layout.offset() == 0 && layout.elements() == elements {
        return Some(vec![View::Reshape(Sizes::from_slice(layout.shape()))]);
    }
    let dense = Layout::contiguous(layout.dtype(), shape).ok()?;
    let axes = axes(layout);
    let made = cut(&axes, layout.offset(), elements, dense.strides())?;
    let mut views = vec![View::Reshape(made.grid.clone())];
    for (axis, &(start, count, step)) in made.taken.iter().enumerate() {
        if count != made.grid[axis] {
            views.push(View::Slice { axis, start, count, step });
        }
    }
    views.push(View::Reshape(axes.iter().map(|axis| axis.size).collect()));
    // Axis `i` of what follows is the one that comes `i`th in the layout.
    let mut order: Sizes = (0..axes.len()).collect();
    order.sort_by_key(|&axis| axes[axis].at);
    views.push(View::Permute(order));
    views.push(View::Reshape(Sizes::from_slice(layout.shape())));
    Some(views)
}
