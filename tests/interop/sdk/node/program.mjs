// Make what ../scenario.py describes: `program.mjs ROUNDS [PAUSE]`. The environment says where it goes.
import { createInterface } from "node:readline/promises";
import { SpanKind, SpanStatusCode, ValueType, context, metrics, trace } from "@opentelemetry/api";
import { SeverityNumber, logs } from "@opentelemetry/api-logs";
import { NodeSDK } from "@opentelemetry/sdk-node";

const BASE_S = 1_700_000_000;
const { INT } = ValueType;
const [rounds, pause] = process.argv.slice(2).map(Number);

const sdk = new NodeSDK();
sdk.start();

const tracer = trace.getTracer("interop", "1.2.3");
const meter = metrics.getMeter("interop", "1.2.3");
const logger = logs.getLogger("interop", "1.2.3");

const requests = meter.createCounter("requests", { unit: "1", description: "Requests served", valueType: INT });
const seconds = meter.createCounter("busy", { unit: "s" });
const active = meter.createUpDownCounter("active", { valueType: INT });
const latency = meter.createHistogram("latency", { unit: "ms" });
const temperature = meter.createGauge("temperature", { unit: "Cel" });
const observed = meter.createObservableCounter("observed", { valueType: INT });
observed.addCallback((result) => result.observe(rounds, { by: "callback" }));

function status(i) {
  if (i % 3 === 0) return { code: SpanStatusCode.OK };
  return i % 3 === 1 ? { code: SpanStatusCode.ERROR, message: `failed ${i}` } : { code: SpanStatusCode.UNSET };
}

function makeRound(i, previous) {
  const at = (ns) => [BASE_S + i, ns];
  const root = tracer.startSpan(`round ${i}`, {
    kind: SpanKind.SERVER,
    startTime: at(0),
    links: previous ? [{ context: previous, attributes: { of: i - 1 } }] : [],
    attributes: {
      string: `round ${i} \u00e4\u20ac\u{1f600}`,
      empty: "",
      int: 4294967296 + i,
      negative: -1 - i,
      double: i + 0.5,
      bool: i % 2 === 0,
      strings: ["a", `b${i}`],
      ints: [i, -1],
      doubles: [0.5, i + 0.25],
      bools: [true, false],
    },
  });
  root.addEvent("event", { n: i, text: "in between" }, at(1000));
  root.setStatus(status(i));
  const inRoot = trace.setSpan(context.active(), root);
  const step = tracer.startSpan(`step ${i}`, { kind: SpanKind.CLIENT, startTime: at(2000) }, inRoot);
  step.end(at(3000));
  root.end(at(2_000_000 + i));

  const isEven = i % 2 === 0;
  const text = `record ${i}`;
  logger.emit({
    timestamp: at(4000),
    observedTimestamp: at(5000),
    context: inRoot,
    severityNumber: isEven ? SeverityNumber.INFO : SeverityNumber.ERROR,
    severityText: isEven ? "INFO" : "ERROR",
    body: isEven ? text : { text, n: i, list: [1, "two", true, 0.5], bytes: new Uint8Array([0, 1, 255]) },
    attributes: { string: `log ${i}`, int: i, double: i + 0.5, bool: isEven },
    eventName: "done",
  });

  const path = { path: isEven ? "/even" : "/odd" };
  requests.add(i + 1, path);
  seconds.add(0.5, path);
  active.add(isEven ? 3 : -1);
  latency.record(i * 1.5, path);
  temperature.record(i + 0.25);
  made.push([root.spanContext().traceId, root.spanContext().spanId, step.spanContext().spanId]);
  return root.spanContext();
}

async function flush() {
  // NodeSDK flushes only at its end; its providers flush at any time.
  const tracing = trace.getTracerProvider();
  const providers = [tracing.getDelegate?.() ?? tracing, metrics.getMeterProvider(), logs.getLoggerProvider()];
  await Promise.all(providers.map((provider) => provider.forceFlush?.().catch(() => {})));
}

const made = [];
let previous;
for (let i = 0; i < rounds; i++) {
  if (i === pause) {
    await flush();
    console.log("paused");
    const lines = createInterface({ input: process.stdin });
    await new Promise((resume) => lines.once("line", resume));
    lines.close();
  }
  previous = makeRound(i, previous);
}

console.log("flushing");
await sdk.shutdown().catch((error) => console.error(error));
console.log(JSON.stringify(made));
