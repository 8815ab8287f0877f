// Asks the ratio sampler of OpenTelemetry for JavaScript; see ../record.py.
"use strict";
const { ROOT_CONTEXT } = require("@opentelemetry/api");
const { SamplingDecision, TraceIdRatioBasedSampler } = require("@opentelemetry/sdk-trace-base");

const [ratios, ...ids] = require("fs").readFileSync(0, "utf8").trimEnd().split("\n");
for (const ratio of ratios.split(" ")) {
  const sampler = new TraceIdRatioBasedSampler(Number(ratio));
  const keeps = (id) => sampler.shouldSample(ROOT_CONTEXT, id).decision === SamplingDecision.RECORD_AND_SAMPLED;
  console.log(ids.map((id) => (keeps(id) ? "1" : "0")).join(""));
}
