import io.opentelemetry.api.common.AttributeKey;
import io.opentelemetry.api.common.Attributes;
import io.opentelemetry.api.common.Value;
import io.opentelemetry.api.logs.LogRecordBuilder;
import io.opentelemetry.api.logs.Logger;
import io.opentelemetry.api.logs.Severity;
import io.opentelemetry.api.metrics.DoubleCounter;
import io.opentelemetry.api.metrics.DoubleGauge;
import io.opentelemetry.api.metrics.DoubleHistogram;
import io.opentelemetry.api.metrics.LongCounter;
import io.opentelemetry.api.metrics.LongUpDownCounter;
import io.opentelemetry.api.metrics.Meter;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanBuilder;
import io.opentelemetry.api.trace.SpanContext;
import io.opentelemetry.api.trace.SpanKind;
import io.opentelemetry.api.trace.StatusCode;
import io.opentelemetry.api.trace.Tracer;
import io.opentelemetry.context.Context;
import io.opentelemetry.sdk.OpenTelemetrySdk;
import io.opentelemetry.sdk.autoconfigure.AutoConfiguredOpenTelemetrySdk;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/** Makes what ../scenario.py describes: `Program ROUNDS [PAUSE]`. The environment says where it goes. */
public final class Program {
  private static final long BASE = 1_700_000_000_000_000_000L;
  private static final TimeUnit NS = TimeUnit.NANOSECONDS;

  private final List<String> made = new ArrayList<>();
  private final Tracer tracer;
  private final Logger logger;
  private final LongCounter requests;
  private final DoubleCounter seconds;
  private final LongUpDownCounter active;
  private final DoubleHistogram latency;
  private final DoubleGauge temperature;

  private Program(OpenTelemetrySdk sdk, int rounds) {
    tracer = sdk.getTracer("interop", "1.2.3");
    logger = sdk.getSdkLoggerProvider().loggerBuilder("interop").setInstrumentationVersion("1.2.3").build();
    Meter meter = sdk.getMeterProvider().meterBuilder("interop").setInstrumentationVersion("1.2.3").build();
    requests = meter.counterBuilder("requests").setUnit("1").setDescription("Requests served").build();
    seconds = meter.counterBuilder("busy").setUnit("s").ofDoubles().build();
    active = meter.upDownCounterBuilder("active").build();
    latency = meter.histogramBuilder("latency").setUnit("ms").build();
    temperature = meter.gaugeBuilder("temperature").setUnit("Cel").build();
    Attributes by = Attributes.of(AttributeKey.stringKey("by"), "callback");
    meter.counterBuilder("observed").buildWithCallback(measurement -> measurement.record(rounds, by));
  }

  public static void main(String[] arguments) throws Exception {
    int rounds = Integer.parseInt(arguments[0]);
    int pause = arguments.length > 1 ? Integer.parseInt(arguments[1]) : -1;
    OpenTelemetrySdk sdk = AutoConfiguredOpenTelemetrySdk.builder().disableShutdownHook().build().getOpenTelemetrySdk();
    Program program = new Program(sdk, rounds);
    SpanContext previous = null;
    for (int i = 0; i < rounds; i++) {
      if (i == pause) {
        sdk.getSdkTracerProvider().forceFlush().join(30, TimeUnit.SECONDS);
        sdk.getSdkMeterProvider().forceFlush().join(30, TimeUnit.SECONDS);
        sdk.getSdkLoggerProvider().forceFlush().join(30, TimeUnit.SECONDS);
        System.out.println("paused");
        System.in.read();
      }
      previous = program.makeRound(i, previous);
    }
    System.out.println("flushing");
    sdk.shutdown().join(60, TimeUnit.SECONDS);
    System.out.println("[" + String.join(",", program.made) + "]");
  }

  private SpanContext makeRound(int i, SpanContext previous) {
    long start = BASE + i * 1_000_000_000L;
    SpanBuilder builder =
        tracer
            .spanBuilder("round " + i)
            .setSpanKind(SpanKind.SERVER)
            .setStartTimestamp(start, NS)
            .setAttribute("string", "round " + i + " \u00e4\u20ac\ud83d\ude00")
            .setAttribute("empty", "")
            .setAttribute("int", 4294967296L + i)
            .setAttribute("negative", -1L - i)
            .setAttribute("double", i + 0.5)
            .setAttribute("bool", i % 2 == 0)
            .setAttribute(AttributeKey.stringArrayKey("strings"), List.of("a", "b" + i))
            .setAttribute(AttributeKey.longArrayKey("ints"), List.of((long) i, -1L))
            .setAttribute(AttributeKey.doubleArrayKey("doubles"), List.of(0.5, i + 0.25))
            .setAttribute(AttributeKey.booleanArrayKey("bools"), List.of(true, false));
    if (previous != null) {
      builder.addLink(previous, Attributes.of(AttributeKey.longKey("of"), i - 1L));
    }
    Span root = builder.startSpan();
    Attributes event =
        Attributes.of(AttributeKey.longKey("n"), (long) i, AttributeKey.stringKey("text"), "in between");
    root.addEvent("event", event, start + 1000, NS);
    if (i % 3 == 0) {
      root.setStatus(StatusCode.OK);
    } else if (i % 3 == 1) {
      root.setStatus(StatusCode.ERROR, "failed " + i);
    }
    Context context = Context.root().with(root);
    Span step =
        tracer
            .spanBuilder("step " + i)
            .setParent(context)
            .setSpanKind(SpanKind.CLIENT)
            .setStartTimestamp(start + 2000, NS)
            .startSpan();
    step.end(start + 3000, NS);
    root.end(start + 2_000_000 + i, NS);

    boolean isEven = i % 2 == 0;
    String text = "record " + i;
    LogRecordBuilder record =
        logger
            .logRecordBuilder()
            .setTimestamp(start + 4000, NS)
            .setObservedTimestamp(start + 5000, NS)
            .setContext(context)
            .setSeverity(isEven ? Severity.INFO : Severity.ERROR)
            .setSeverityText(isEven ? "INFO" : "ERROR")
            .setAttribute("string", "log " + i)
            .setAttribute("int", (long) i)
            .setAttribute("double", i + 0.5)
            .setAttribute("bool", isEven)
            .setEventName("done");
    if (isEven) {
      record.setBody(text);
    } else {
      Map<String, Value<?>> body = new LinkedHashMap<>();
      body.put("text", Value.of(text));
      body.put("n", Value.of(i));
      body.put("list", Value.of(Value.of(1), Value.of("two"), Value.of(true), Value.of(0.5)));
      body.put("bytes", Value.of(new byte[] {0, 1, -1}));
      record.setBody(Value.of(body));
    }
    record.emit();

    Attributes path = Attributes.of(AttributeKey.stringKey("path"), isEven ? "/even" : "/odd");
    requests.add(i + 1, path);
    seconds.add(0.5, path);
    active.add(isEven ? 3 : -1);
    latency.record(i * 1.5, path);
    temperature.set(i + 0.25);
    SpanContext rootContext = root.getSpanContext();
    String stepId = step.getSpanContext().getSpanId();
    made.add("[\"" + String.join("\",\"", rootContext.getTraceId(), rootContext.getSpanId(), stepId) + "\"]");
    return rootContext;
  }
}
