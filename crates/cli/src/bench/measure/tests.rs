use super::*;
use crate::bench::callees::ModuleCallee;
use crate::workloads::Origin;

#[test]
fn percentiles_are_of_the_calls_that_were_made() {
    let latencies = (1..=100).map(Duration::from_micros).collect();
    let sample = Sample { latencies, ..Default::default() };
    assert_eq!([0.5, 0.99, 1.0].map(|share| sample.percentile(share).round()), [50., 99., 100.]);
    assert_eq!(Sample::default().percentile(0.5), 0.0);
}

#[test]
fn calls_with_times_say_how_late_they_were_sent() {
    let device = Device::cpu().unwrap();
    let workload = crate::workloads::chosen(&["mlp".into()])[0];
    let model = workload.load(&device).unwrap();
    let callee = ModuleCallee { workload, device, origin: Origin::Device, model: &*model };
    let answers = answers(&callee, 2).unwrap();
    let sample = |arrivals| {
        let subject = Subject { callee: &callee, device, answers: &answers, arrivals };
        subject.measure(2, Duration::from_millis(50))
    };
    assert_eq!(sample(Arrivals::Closed).late(0.99), None);
    let timed = sample(Arrivals::Poisson(1000.0));
    assert_eq!(timed.late.len(), timed.latencies.len());
    // Part of the latency.
    assert!(timed.late(1.0).unwrap() <= timed.percentile(1.0));
}

#[test]
fn a_wrong_answer_is_noticed() {
    let device = Device::cpu().unwrap();
    let workload = crate::workloads::chosen(&["mlp".into()])[0];
    let model = workload.load(&device).unwrap();
    let callee = |origin| ModuleCallee { workload, device, origin, model: &*model };
    let mut answers = answers(&callee(Origin::Device), 2).unwrap();
    assert_ne!(answers[0], answers[1]);
    answers[2][7] ^= 1;
    for origin in [Origin::Device, Origin::Host] {
        let arrivals = Arrivals::Closed;
        let subject = Subject { callee: &callee(origin), device, answers: &answers, arrivals };
        // Too short for more than one call of each input, however fast the machine is.
        let sample = subject.measure(2, Duration::ZERO);
        assert_eq!((sample.mismatches, sample.errors, sample.latencies.len()), (1, 0, 3));
        assert!(sample.calls_per_second > 0.0);
    }
}
