//! Asks the ratio sampler of OpenTelemetry for Rust; see ../../record.py.
use opentelemetry::trace::{SamplingDecision, SpanKind, TraceId};
use opentelemetry_sdk::trace::{Sampler, ShouldSample};

fn main() {
    let lines: Vec<String> = std::io::stdin().lines().map(|line| line.unwrap()).collect();
    for ratio in lines[0].split(' ') {
        let sampler = Sampler::TraceIdRatioBased(ratio.parse().unwrap());
        let keeps = |id: &String| {
            let id = TraceId::from_hex(id).unwrap();
            let result = sampler.should_sample(None, id, "", &SpanKind::Internal, &[], &[]);
            result.decision == SamplingDecision::RecordAndSample
        };
        let line: String = lines[1..].iter().map(|id| if keeps(id) { '1' } else { '0' }).collect();
        println!("{line}");
    }
}
