//! Constants of a model: given by its file, or computed from others when they are first needed.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use bytes::Bytes;
use millstream_core::{BufferLike, Device, TensorSpec};
use millstream_nn::Tensor;
use smallvec::SmallVec;

use crate::graph::NodeOp;
use crate::{Array, Error, Result, evaluate};

/// Contents up to so many bytes are kept on the host once they were asked for.
const KEPT_BYTES: usize = 1 << 16;

/// A tensor whose values are known before a call. Clones are the same constant.
///
/// # Thread safety
///
/// A constant never changes. What it is made of is computed when it is first needed, once, by whoever needs it.
#[derive(Clone)]
pub struct Constant(Arc<Inner>);

struct Inner {
    /// Unique in the process.
    number: u64,
    spec: TensorSpec,
    recipe: Recipe,
    /// The contents, if they were asked for and are small.
    array: OnceLock<Array>,
    /// As weights of devices, settled. Taken when plans are made, never when they are run.
    weights: Mutex<Vec<Tensor>>,
}

/// How the contents come about.
pub(crate) enum Recipe {
    Given(Array),
    /// Settled memory of a device, which code that was traced has as weights. Any layout.
    Held(Tensor),
    Computed {
        op: NodeOp,
        inputs: SmallVec<[Constant; 4]>,
        output: usize,
    },
}

impl Constant {
    fn with(spec: TensorSpec, recipe: Recipe) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        Self(Arc::new(Inner {
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            spec,
            recipe,
            array: OnceLock::new(),
            weights: Mutex::new(Vec::new()),
        }))
    }

    /// A constant with these contents.
    pub fn new(array: Array) -> Self {
        Self::with(array.spec(), Recipe::Given(array))
    }

    /// A constant that is a tensor of a device, which is settled. It is not copied where that device uses it.
    ///
    /// # Errors
    ///
    /// What went wrong while the tensor was computed.
    pub fn of_weights(tensor: Tensor) -> Result<Self> {
        let tensor = tensor.settle()?;
        Ok(Self::with(TensorSpec::of(tensor.layout()), Recipe::Held(tensor)))
    }

    /// Element type and shape.
    pub fn spec(&self) -> TensorSpec {
        self.0.spec
    }

    /// A number that no other constant of this process has.
    pub(crate) fn number(&self) -> u64 {
        self.0.number
    }

    pub(crate) fn recipe(&self) -> &Recipe {
        &self.0.recipe
    }

    /// The contents that are at hand.
    pub(crate) fn at_hand(&self) -> Option<&Array> {
        match &self.0.recipe {
            Recipe::Given(array) => Some(array),
            Recipe::Held(_) | Recipe::Computed { .. } => self.0.array.get(),
        }
    }

    /// The contents.
    ///
    /// # Errors
    ///
    /// What went wrong when they were computed.
    pub(crate) fn array(&self, folder: &Folder) -> Result<Array> {
        if let Some(array) = self.at_hand() {
            return Ok(array.clone());
        }
        let array = Array::of_tensor(&evaluate::evaluate(self, folder.host())?)?;
        if array.bytes().len() <= KEPT_BYTES {
            let _ = self.0.array.set(array.clone());
        }
        Ok(array)
    }

    fn weights(&self) -> MutexGuard<'_, Vec<Tensor>> {
        self.0.weights.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As weights that the device keeps, if they are there.
    pub(crate) fn loaded(&self, device: &Device) -> Option<Tensor> {
        if let Recipe::Held(tensor) = &self.0.recipe
            && tensor.device() == *device
        {
            return Some(tensor.clone());
        }
        self.weights().iter().find(|tensor| tensor.device() == *device).cloned()
    }

    /// As weights of a device: complete, settled, and there once for all plans.
    ///
    /// # Errors
    ///
    /// What went wrong when they were computed, or no memory.
    pub(crate) fn load(&self, folder: &Folder) -> Result<Tensor> {
        let device = folder.device();
        if let Some(tensor) = self.loaded(device) {
            return Ok(tensor);
        }
        let tensor = match &self.0.recipe {
            Recipe::Held(tensor) => tensor.to_device(device)?,
            Recipe::Given(array) => evaluate::copied(array, device)?,
            Recipe::Computed { op, .. } => {
                // The order of packed weights is known to their own device alone.
                let by = if is_for_device(op) { device } else { folder.host() };
                evaluate::evaluate(self, by)?.to_device(device)?
            }
        };
        // The weights of a plan lie densely from the first byte on.
        let tensor = tensor.contiguous()?.settle()?;
        let mut weights = self.weights();
        // Two plans that were made at once may both have come here; the first stays.
        if let Some(first) = weights.iter().find(|tensor| tensor.device() == *device) {
            return Ok(first.clone());
        }
        weights.push(tensor.clone());
        Ok(tensor)
    }

    /// Bytes of device memory that are kept for it.
    pub(crate) fn loaded_bytes(&self) -> usize {
        let held = match &self.0.recipe {
            Recipe::Held(tensor) => tensor.layout().dense_bytes(),
            Recipe::Given(_) | Recipe::Computed { .. } => 0,
        };
        let loaded: usize = self.weights().iter().map(|tensor| tensor.buffer().bytes()).sum();
        held + loaded
    }
}

/// Whether only the device that uses the result can compute it.
fn is_for_device(op: &NodeOp) -> bool {
    matches!(op, NodeOp::Op(millstream_core::Op::PackWeights { .. }))
}

impl fmt::Debug for Constant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at_hand() {
            Some(array) => write!(f, "{array:?}"),
            None => match &self.0.recipe {
                Recipe::Held(_) => write!(f, "{} held", self.0.spec),
                Recipe::Given(_) | Recipe::Computed { .. } => write!(f, "{} computed", self.0.spec),
            },
        }
    }
}

impl PartialEq for Constant {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Constant {}

#[derive(PartialEq, Eq, Hash)]
struct RecipeKey {
    op: NodeOp,
    inputs: SmallVec<[u64; 4]>,
    output: usize,
}

/// Makes constants of constants, each once, and knows where they are computed.
///
/// # Thread safety
///
/// Each table of constants is behind a lock, which is taken when plans are made and never when they are run;
/// nothing is computed while it is held, and none is taken within another.
pub(crate) struct Folder {
    device: Device,
    host: Device,
    /// The most bytes that a tensor may have.
    tensor_bytes: usize,
    computed: Mutex<HashMap<RecipeKey, Weak<Inner>>>,
    /// Small constants that operators make for a plan, by their contents: every plan finds the same ones, and so the same of all
    /// that is computed of them and of weights.
    small: Mutex<HashMap<(TensorSpec, Bytes), Weak<Inner>>>,
    /// Weights of code that was traced, by their memory: every trace finds the same constants.
    held: Mutex<HashMap<usize, Vec<Weak<Inner>>>>,
}

/// Entries of constants that are gone are dropped when the table has grown by so many.
const SWEEP: usize = 1024;
/// The same of the table whose entries have contents.
const SMALL_SWEEP: usize = 64;

/// Drops entries of constants that are gone, whenever a table of so many or more has doubled.
fn sweep<K: Eq + Hash>(table: &mut HashMap<K, Weak<Inner>>, from: usize) {
    if table.len() >= from && table.len().is_power_of_two() {
        table.retain(|_, constant| constant.strong_count() > 0);
    }
}

impl Folder {
    /// For plans of a device. Constants are computed on the CPU device.
    ///
    /// # Errors
    ///
    /// A CPU device that cannot be opened.
    pub fn new(device: &Device, tensor_bytes: usize) -> Result<Self> {
        let host = if device.info().name == "cpu" { *device } else { Device::cpu()? };
        Ok(Self {
            device: *device,
            host,
            tensor_bytes,
            computed: Mutex::new(HashMap::new()),
            small: Mutex::new(HashMap::new()),
            held: Mutex::new(HashMap::new()),
        })
    }

    /// The constant that was first made of the same weights, or this one. So plans share what is computed of them.
    pub fn first_of(&self, constant: &Constant) -> Constant {
        let Recipe::Held(tensor) = &constant.0.recipe else { return constant.clone() };
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.len() >= SWEEP && held.len().is_power_of_two() {
            held.retain(|_, constants| constants.iter().any(|known| known.strong_count() > 0));
        }
        let known = held.entry(tensor.buffer().identity()).or_default();
        known.retain(|known| known.strong_count() > 0);
        // Memory that is used again belongs to no constant that lives: a constant keeps its memory.
        let same = |known: &Arc<Inner>| match &known.recipe {
            Recipe::Held(other) => other.layout() == tensor.layout(),
            Recipe::Given(_) | Recipe::Computed { .. } => false,
        };
        if let Some(first) = known.iter().filter_map(Weak::upgrade).find(same) {
            return Constant(first);
        }
        known.push(Arc::downgrade(&constant.0));
        constant.clone()
    }

    /// A constant with these contents: if they are few, that which was first made of them and still lives.
    pub fn constant(&self, array: Array) -> Constant {
        if array.bytes().len() > KEPT_BYTES {
            return Constant::new(array);
        }
        let mut small = self.small.lock().unwrap_or_else(PoisonError::into_inner);
        sweep(&mut small, SMALL_SWEEP);
        let key = (array.spec(), array.bytes().clone());
        if let Some(known) = small.get(&key).and_then(Weak::upgrade) {
            return Constant(known);
        }
        let made = Constant::new(array);
        small.insert(key, Arc::downgrade(&made.0));
        made
    }

    /// The most bytes that a tensor may have.
    pub fn tensor_bytes(&self) -> usize {
        self.tensor_bytes
    }

    /// The device whose plans use the constants.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The device that computes them.
    pub fn host(&self) -> &Device {
        &self.host
    }

    /// What a node makes of constants. Nothing is computed yet.
    pub fn fold(
        &self,
        op: &NodeOp,
        inputs: &[Constant],
        specs: &[TensorSpec],
    ) -> SmallVec<[Constant; 1]> {
        let mut computed = self.computed.lock().unwrap_or_else(PoisonError::into_inner);
        sweep(&mut computed, SWEEP);
        let numbers: SmallVec<[u64; 4]> = inputs.iter().map(Constant::number).collect();
        specs
            .iter()
            .enumerate()
            .map(|(output, &spec)| {
                let key = RecipeKey { op: op.clone(), inputs: numbers.clone(), output };
                if let Some(known) = computed.get(&key).and_then(Weak::upgrade) {
                    return Constant(known);
                }
                let inputs = SmallVec::from(inputs);
                let recipe = Recipe::Computed { op: op.clone(), inputs, output };
                let made = Constant::with(spec, recipe);
                computed.insert(key, Arc::downgrade(&made.0));
                made
            })
            .collect()
    }
}

impl fmt::Debug for Folder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Folder")
            .field("device", &self.device)
            .field("host", &self.host)
            .finish_non_exhaustive()
    }
}

impl Drop for Inner {
    /// A constant of a constant of a constant … is taken apart one by one: a long chain must not use up the stack.
    fn drop(&mut self) {
        let mut left: Vec<Constant> = Vec::new();
        if let Recipe::Computed { inputs, .. } = &mut self.recipe {
            left.extend(inputs.drain(..));
        }
        while let Some(constant) = left.pop() {
            if let Some(mut inner) = Arc::into_inner(constant.0)
                && let Recipe::Computed { inputs, .. } = &mut inner.recipe
            {
                left.extend(inputs.drain(..));
            }
        }
    }
}

/// The error of contents that are needed and cannot be had.
pub(crate) fn not_at_hand(what: &str) -> Error {
    Error::Invalid { op: "constant", reason: format!("the contents of {what} are not at hand") }
}
