//! Makes what ../scenario.py describes: `program ROUNDS [PAUSE]`. The environment says where it goes.

use std::error::Error;
use std::time::{Duration, SystemTime};

use opentelemetry::logs::{AnyValue, LogRecord, Logger, LoggerProvider, Severity};
use opentelemetry::metrics::{Counter, Gauge, Histogram, UpDownCounter};
use opentelemetry::trace::{
    Link, Span, SpanContext, SpanKind, Status, TraceContextExt, Tracer, TracerProvider,
};
use opentelemetry::{Array, Context, InstrumentationScope, KeyValue, StringValue, Value};
use opentelemetry_otlp::{LogExporter, MetricExporter, SpanExporter};
use opentelemetry_sdk::logs::{SdkLogger, SdkLoggerProvider};
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};

const BASE_S: u64 = 1_700_000_000;

struct Program {
    tracer: SdkTracer,
    logger: SdkLogger,
    requests: Counter<u64>,
    seconds: Counter<f64>,
    active: UpDownCounter<i64>,
    latency: Histogram<f64>,
    temperature: Gauge<f64>,
    made: Vec<[String; 3]>,
}

/// Whether the user has not switched the signal off, which the other SDKs read themselves.
fn is_on(variable: &str) -> bool {
    std::env::var(variable).as_deref() != Ok("none")
}

fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::WARN)
        .with_writer(std::io::stderr)
        .init();
    // The gRPC exporter lives on a runtime; the batch processors bring threads of their own.
    let runtime = tokio::runtime::Runtime::new()?;
    let _entered = runtime.enter();

    let numbers: Vec<i64> = std::env::args()
        .skip(1)
        .map(|text| text.parse())
        .collect::<Result<_, _>>()?;
    let rounds = numbers[0];

    let mut tracing = SdkTracerProvider::default();
    if is_on("OTEL_TRACES_EXPORTER") {
        tracing = SdkTracerProvider::builder()
            .with_batch_exporter(SpanExporter::builder().build()?)
            .build();
    }
    let mut metrics = SdkMeterProvider::default();
    if is_on("OTEL_METRICS_EXPORTER") {
        metrics = SdkMeterProvider::builder()
            .with_periodic_exporter(MetricExporter::builder().build()?)
            .build();
        opentelemetry::global::set_meter_provider(metrics.clone());
    }
    let mut logging = SdkLoggerProvider::builder().build();
    if is_on("OTEL_LOGS_EXPORTER") {
        logging = SdkLoggerProvider::builder()
            .with_batch_exporter(LogExporter::builder().build()?)
            .build();
    }

    let scope = InstrumentationScope::builder("interop")
        .with_version("1.2.3")
        .build();
    let meter = opentelemetry::global::meter_with_scope(scope.clone());
    let _observed = meter
        .u64_observable_counter("observed")
        .with_callback(move |observer| {
            observer.observe(rounds as u64, &[KeyValue::new("by", "callback")])
        })
        .build();
    let mut program = Program {
        tracer: tracing.tracer_with_scope(scope.clone()),
        logger: logging.logger_with_scope(scope),
        requests: meter
            .u64_counter("requests")
            .with_unit("1")
            .with_description("Requests served")
            .build(),
        seconds: meter.f64_counter("busy").with_unit("s").build(),
        active: meter.i64_up_down_counter("active").build(),
        latency: meter.f64_histogram("latency").with_unit("ms").build(),
        temperature: meter.f64_gauge("temperature").with_unit("Cel").build(),
        made: Vec::new(),
    };

    let mut previous = None;
    for i in 0..rounds {
        if numbers.get(1) == Some(&i) {
            // What goes wrong is in the SDK's own log.
            let _ = (
                tracing.force_flush(),
                metrics.force_flush(),
                logging.force_flush(),
            );
            println!("paused");
            std::io::stdin().read_line(&mut String::new())?;
        }
        previous = Some(program.make_round(i, previous));
    }
    println!("flushing");
    for result in [tracing.shutdown(), metrics.shutdown(), logging.shutdown()] {
        if let Err(error) = result {
            eprintln!("{error}");
        }
    }
    println!("{}", serde_json::to_string(&program.made)?);
    Ok(())
}

impl Program {
    fn make_round(&mut self, i: i64, previous: Option<SpanContext>) -> SpanContext {
        let at = |ns: u64| SystemTime::UNIX_EPOCH + Duration::new(BASE_S + i as u64, ns as u32);
        let is_even = i % 2 == 0;
        let strings: Vec<StringValue> = vec!["a".into(), format!("b{i}").into()];
        let root = self
            .tracer
            .span_builder(format!("round {i}"))
            .with_kind(SpanKind::Server)
            .with_start_time(at(0))
            .with_links(
                previous
                    .map(|context| Link::new(context, vec![KeyValue::new("of", i - 1)], 0))
                    .into_iter()
                    .collect(),
            )
            .with_attributes([
                KeyValue::new("string", format!("round {i} \u{e4}\u{20ac}\u{1f600}")),
                KeyValue::new("empty", ""),
                KeyValue::new("int", 4_294_967_296 + i),
                KeyValue::new("negative", -1 - i),
                KeyValue::new("double", i as f64 + 0.5),
                KeyValue::new("bool", is_even),
                KeyValue::new("strings", Value::Array(Array::String(strings))),
                KeyValue::new("ints", Value::Array(vec![i, -1].into())),
                KeyValue::new("doubles", Value::Array(vec![0.5, i as f64 + 0.25].into())),
                KeyValue::new("bools", Value::Array(vec![true, false].into())),
            ])
            .start_with_context(&self.tracer, &Context::new());
        let context = Context::new().with_span(root);
        let root = context.span();
        root.add_event_with_timestamp(
            "event",
            at(1000),
            vec![KeyValue::new("n", i), KeyValue::new("text", "in between")],
        );
        match i % 3 {
            0 => root.set_status(Status::Ok),
            1 => root.set_status(Status::error(format!("failed {i}"))),
            _ => {}
        }
        let mut step = self
            .tracer
            .span_builder(format!("step {i}"))
            .with_kind(SpanKind::Client)
            .with_start_time(at(2000))
            .start_with_context(&self.tracer, &context);
        step.end_with_timestamp(at(3000));
        root.end_with_timestamp(at(2_000_000 + i as u64));

        let ids = root.span_context().clone();
        let text = format!("record {i}");
        let mut record = self.logger.create_log_record();
        record.set_timestamp(at(4000));
        record.set_observed_timestamp(at(5000));
        record.set_trace_context(ids.trace_id(), ids.span_id(), Some(ids.trace_flags()));
        record.set_event_name("done");
        record.set_severity_number(if is_even {
            Severity::Info
        } else {
            Severity::Error
        });
        record.set_severity_text(if is_even { "INFO" } else { "ERROR" });
        record.add_attribute("string", format!("log {i}"));
        record.add_attribute("int", i);
        record.add_attribute("double", i as f64 + 0.5);
        record.add_attribute("bool", is_even);
        record.set_body(if is_even { text.into() } else { body(text, i) });
        self.logger.emit(record);

        let path = [KeyValue::new(
            "path",
            if is_even { "/even" } else { "/odd" },
        )];
        self.requests.add(i as u64 + 1, &path);
        self.seconds.add(0.5, &path);
        self.active.add(if is_even { 3 } else { -1 }, &[]);
        self.latency.record(i as f64 * 1.5, &path);
        self.temperature.record(i as f64 + 0.25, &[]);
        let step_id = step.span_context().span_id();
        self.made.push([
            ids.trace_id().to_string(),
            ids.span_id().to_string(),
            step_id.to_string(),
        ]);
        ids
    }
}

fn body(text: String, i: i64) -> AnyValue {
    let list: [AnyValue; 4] = [1.into(), "two".into(), true.into(), 0.5.into()];
    [
        ("text", AnyValue::from(text)),
        ("n", i.into()),
        ("list", AnyValue::ListAny(Box::new(list.to_vec()))),
        ("bytes", AnyValue::Bytes(Box::new(vec![0, 1, 255]))),
    ]
    .into_iter()
    .collect()
}
