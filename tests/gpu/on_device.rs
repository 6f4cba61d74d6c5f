//! A device as a target of the conformance suite, taken through the public interface.

use std::time::Duration;

use millstream::{Buffer, DType, Device, Layout, Op, OpKind, Stream};
use millstream_conformance::{Case, Outcome, Target, cases};

/// A device, taken through the public interface.
pub struct OnDevice {
    pub device: Device,
    pub name: &'static str,
    pub bit_identical: bool,
    /// It takes subnormal numbers of `f32` for zeros.
    pub flushes: bool,
    /// It has 64-bit floating point.
    pub f64: bool,
    /// Cases are those of the part that `MILLSTREAM_CONFORMANCE_PART` names.
    pub parts: bool,
}

impl OnDevice {
    /// The CPU device.
    pub fn new(name: &'static str, threads: usize, intra_op: bool) -> Self {
        let builder = Device::builder("cpu").threads(threads).intra_op(intra_op);
        // A busy machine takes its time; only what hangs waits that long.
        let device = builder.wait_timeout(Duration::from_secs(120)).open().unwrap();
        Self { device, name, bit_identical: true, flushes: false, f64: true, parts: true }
    }

    /// A GPU, if there is one. A variable that is set makes it an error if there is none.
    pub fn gpu(name: &'static str, required: &str) -> Option<Self> {
        let metal = name == "metal";
        match Device::builder(name).wait_timeout(Duration::from_secs(120)).open() {
            Ok(device) => Some(Self {
                device,
                name,
                bit_identical: false,
                flushes: metal,
                f64: !metal,
                parts: true,
            }),
            Err(error) => {
                assert!(std::env::var_os(required).is_none(), "{error}");
                eprintln!("SKIPPED: {error}");
                None
            }
        }
    }

    /// Whether a case is of the part that `MILLSTREAM_CONFORMANCE_PART` names, as in `2/8`; without it all are.
    pub fn part_has(&self, case: &Case) -> bool {
        let Ok(chosen) = std::env::var("MILLSTREAM_CONFORMANCE_PART") else { return true };
        let parts: Option<(u64, u64)> = chosen
            .split_once('/')
            .and_then(|(own, all)| Some((own.parse().ok()?, all.parse().ok()?)));
        let (own, all) = parts.filter(|(own, all)| own <= all).expect("a part is as in 2/8");
        let mark = case.name.bytes().fold(0u64, |mark, byte| mark * 31 % 65521 + u64::from(byte));
        mark % all + 1 == own
    }

    /// Whether the device refuses a case for want of 64-bit floating point, as it should.
    fn lacks_f64(&self, case: &Case) -> bool {
        let operands = case.inputs().iter().chain(case.outputs());
        let within = match &case.op {
            Op::Chain { chain } => chain.results().contains(&DType::F64),
            _ => false,
        };
        if !within && operands.clone().all(|operand| operand.layout.dtype() != DType::F64) {
            return false;
        }
        match self.execute(case) {
            Err(millstream::Error::Unsupported { reason, .. }) => reason.contains("64-bit"),
            // What only moves such elements is done.
            _ => false,
        }
    }

    fn execute(&self, case: &Case) -> millstream::Result<Outcome> {
        let stream = Stream::new(&self.device)?;
        let bytes = |buffer: &Buffer| Layout::contiguous(DType::U8, &[buffer.bytes()]);
        let mut buffers = Vec::new();
        for content in &case.buffers {
            let buffer = stream.allocate(content.len())?;
            stream.upload(buffer.operand(bytes(&buffer)?), content)?;
            buffers.push(buffer);
        }
        let command = case.command(|index| &buffers[index])?;
        let op = command.op().clone();
        stream.record(command)?;
        let downloads: Vec<_> = buffers
            .iter()
            .map(|buffer| stream.download(buffer.operand(bytes(buffer)?)))
            .collect::<Result<_, _>>()?;
        stream.synchronize()?;
        let host = match op {
            // SAFETY: the stream was synchronized, and nothing else writes to these bytes.
            Op::Download { target } => Some(unsafe { target.as_slice() }.to_vec()),
            _ => None,
        };
        let buffers = downloads.into_iter().map(|download| download.bytes());
        Ok(Outcome { buffers: buffers.collect::<Result<_, _>>()?, host })
    }
}

impl Target for OnDevice {
    fn name(&self) -> &str {
        self.name
    }

    /// `MILLSTREAM_CONFORMANCE_KINDS=matmul,conv` leaves the others out, so that several processes can share
    /// the suite.
    fn supports(&self, kind: OpKind) -> bool {
        let chosen = std::env::var("MILLSTREAM_CONFORMANCE_KINDS").unwrap_or_default();
        let wanted = chosen.is_empty() || chosen.split(',').any(|name| name == kind.name());
        wanted && self.device.supports(kind)
    }

    /// `MILLSTREAM_CONFORMANCE_PART=2/8` leaves all but the second of eight parts out, for the same reason.
    fn skips(&self, case: &Case) -> Option<String> {
        if self.parts && !self.part_has(case) {
            return Some("of another part".into());
        }
        (!self.f64 && self.lacks_f64(case)).then(|| "no 64-bit floating point".into())
    }

    fn run(&self, case: &Case) -> Result<Outcome, String> {
        self.execute(case).map_err(|error| error.to_string())
    }

    fn is_bit_identical(&self) -> bool {
        self.bit_identical
    }

    fn flushes_subnormals(&self) -> bool {
        self.flushes
    }
}

/// Some cases of every kind that a target supports.
pub fn samples(target: &OnDevice) -> Vec<Case> {
    const OF_A_KIND: usize = 16;
    let kinds = OpKind::ALL.iter().filter(|&&kind| target.supports(kind));
    kinds
        // The time is another each time.
        .filter(|&&kind| kind != OpKind::Timestamp)
        .flat_map(|&kind| {
            let all = cases(kind);
            let step = all.len().div_ceil(OF_A_KIND).max(1);
            all.into_iter().step_by(step)
        })
        .collect()
}
