// Command program makes what ../scenario.py describes: `program ROUNDS [PAUSE]`. The environment says where it goes.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"time"

	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/log"
	"go.opentelemetry.io/otel/metric"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

const (
	base    = 1_700_000_000
	name    = "interop"
	version = "1.2.3"
)

// provider is what the SDK's three providers have in common.
type provider interface {
	ForceFlush(context.Context) error
	Shutdown(context.Context) error
}

type program struct {
	tracer      trace.Tracer
	logger      log.Logger
	requests    metric.Int64Counter
	seconds     metric.Float64Counter
	active      metric.Int64UpDownCounter
	latency     metric.Float64Histogram
	temperature metric.Float64Gauge
	made        [][3]string
}

func must[T any](value T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return value
}

func main() {
	ctx := context.Background()
	rounds, pause := must(strconv.Atoi(os.Args[1])), -1
	if len(os.Args) > 2 {
		pause = must(strconv.Atoi(os.Args[2]))
	}

	tracing := sdktrace.NewTracerProvider(sdktrace.WithBatcher(must(autoexport.NewSpanExporter(ctx))))
	metrics := sdkmetric.NewMeterProvider(sdkmetric.WithReader(must(autoexport.NewMetricReader(ctx))))
	logging := sdklog.NewLoggerProvider(
		sdklog.WithProcessor(sdklog.NewBatchProcessor(must(autoexport.NewLogExporter(ctx)))))
	providers := []provider{tracing, metrics, logging}

	meter := metrics.Meter(name, metric.WithInstrumentationVersion(version))
	p := &program{
		tracer:      tracing.Tracer(name, trace.WithInstrumentationVersion(version)),
		logger:      logging.Logger(name, log.WithInstrumentationVersion(version)),
		requests:    must(meter.Int64Counter("requests", metric.WithUnit("1"), metric.WithDescription("Requests served"))),
		seconds:     must(meter.Float64Counter("busy", metric.WithUnit("s"))),
		active:      must(meter.Int64UpDownCounter("active")),
		latency:     must(meter.Float64Histogram("latency", metric.WithUnit("ms"))),
		temperature: must(meter.Float64Gauge("temperature", metric.WithUnit("Cel"))),
	}
	must(meter.Int64ObservableCounter("observed", metric.WithInt64Callback(
		func(_ context.Context, observer metric.Int64Observer) error {
			observer.Observe(int64(rounds), metric.WithAttributes(attribute.String("by", "callback")))
			return nil
		})))

	var previous trace.SpanContext
	for i := range rounds {
		if i == pause {
			each(providers, provider.ForceFlush)
			fmt.Println("paused")
			bufio.NewReader(os.Stdin).ReadString('\n')
		}
		previous = p.makeRound(ctx, i, previous)
	}
	fmt.Println("flushing")
	each(providers, provider.Shutdown)
	fmt.Println(string(must(json.Marshal(p.made))))
}

// each does the same with all providers and hands what goes wrong to the SDK's own handler, which prints it.
func each(providers []provider, action func(provider, context.Context) error) {
	for _, provider := range providers {
		if err := action(provider, context.Background()); err != nil {
			otel.Handle(err)
		}
	}
}

func (p *program) makeRound(ctx context.Context, i int, previous trace.SpanContext) trace.SpanContext {
	start := time.Unix(int64(base+i), 0)
	at := func(ns int) trace.SpanEventOption { return trace.WithTimestamp(start.Add(time.Duration(ns))) }
	isEven := i%2 == 0

	options := []trace.SpanStartOption{
		trace.WithSpanKind(trace.SpanKindServer),
		trace.WithTimestamp(start),
		trace.WithAttributes(
			attribute.String("string", fmt.Sprintf("round %d \u00e4\u20ac\U0001f600", i)),
			attribute.String("empty", ""),
			attribute.Int64("int", 4294967296+int64(i)),
			attribute.Int("negative", -1-i),
			attribute.Float64("double", float64(i)+0.5),
			attribute.Bool("bool", isEven),
			attribute.StringSlice("strings", []string{"a", fmt.Sprintf("b%d", i)}),
			attribute.IntSlice("ints", []int{i, -1}),
			attribute.Float64Slice("doubles", []float64{0.5, float64(i) + 0.25}),
			attribute.BoolSlice("bools", []bool{true, false}),
		),
	}
	if previous.IsValid() {
		link := trace.Link{SpanContext: previous, Attributes: []attribute.KeyValue{attribute.Int("of", i-1)}}
		options = append(options, trace.WithLinks(link))
	}
	inRoot, root := p.tracer.Start(ctx, fmt.Sprintf("round %d", i), options...)
	event := trace.WithAttributes(attribute.Int("n", i), attribute.String("text", "in between"))
	root.AddEvent("event", at(1000), event)
	switch i % 3 {
	case 0:
		root.SetStatus(codes.Ok, "")
	case 1:
		root.SetStatus(codes.Error, fmt.Sprintf("failed %d", i))
	}
	_, step := p.tracer.Start(inRoot, fmt.Sprintf("step %d", i),
		trace.WithSpanKind(trace.SpanKindClient), at(2000))
	step.End(at(3000))
	root.End(at(2_000_000 + i))

	p.logger.Emit(inRoot, makeRecord(i, start))

	path := metric.WithAttributes(attribute.String("path", map[bool]string{true: "/even", false: "/odd"}[isEven]))
	p.requests.Add(ctx, int64(i+1), path)
	p.seconds.Add(ctx, 0.5, path)
	p.active.Add(ctx, map[bool]int64{true: 3, false: -1}[isEven])
	p.latency.Record(ctx, float64(i)*1.5, path)
	p.temperature.Record(ctx, float64(i)+0.25)
	context := root.SpanContext()
	p.made = append(p.made,
		[3]string{context.TraceID().String(), context.SpanID().String(), step.SpanContext().SpanID().String()})
	return context
}

func makeRecord(i int, start time.Time) log.Record {
	isEven := i%2 == 0
	text := attribute.StringValue(fmt.Sprintf("record %d", i))
	var record log.Record
	record.SetTimestamp(start.Add(4000))
	record.SetObservedTimestamp(start.Add(5000))
	record.SetEventName("done")
	record.AddAttributes(
		attribute.String("string", fmt.Sprintf("log %d", i)), attribute.Int("int", i),
		attribute.Float64("double", float64(i)+0.5), attribute.Bool("bool", isEven))
	if isEven {
		record.SetSeverity(log.SeverityInfo)
		record.SetSeverityText("INFO")
		record.SetBody(text)
		return record
	}
	record.SetSeverity(log.SeverityError)
	record.SetSeverityText("ERROR")
	list := attribute.Slice("list", attribute.IntValue(1), attribute.StringValue("two"),
		attribute.BoolValue(true), attribute.Float64Value(0.5))
	record.SetBody(attribute.MapValue(
		attribute.KeyValue{Key: "text", Value: text}, attribute.Int("n", i), list,
		attribute.ByteSlice("bytes", []byte{0, 1, 255})))
	return record
}
