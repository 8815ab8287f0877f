// Asks the ratio samplers of OpenTelemetry, Jaeger and Datadog for Go; see ../record.py.
package main

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"unsafe"

	"github.com/DataDog/dd-trace-go/v2/ddtrace/tracer"
	"github.com/uber/jaeger-client-go"
	"go.opentelemetry.io/otel/sdk/trace"
)

func decider(sdk string, ratio float64) func(id [16]byte) bool {
	switch sdk {
	case "go":
		sampler := trace.TraceIDRatioBased(ratio)
		return func(id [16]byte) bool {
			return sampler.ShouldSample(trace.SamplingParameters{TraceID: id}).Decision == trace.RecordAndSample
		}
	case "jaeger":
		sampler, err := jaeger.NewProbabilisticSampler(ratio)
		if err != nil {
			panic(err)
		}
		return func(id [16]byte) bool {
			low := binary.BigEndian.Uint64(id[8:])
			sampled, _ := sampler.IsSampled(jaeger.TraceID{High: binary.BigEndian.Uint64(id[:8]), Low: low}, "")
			return sampled
		}
	default:
		sampler := tracer.NewRateSampler(ratio)
		return func(id [16]byte) bool { return datadogSamples(sampler, id) }
	}
}

// A span with a trace id of our choice cannot be had without a running tracer, so its field is set from outside.
func datadogSamples(sampler tracer.RateSampler, id [16]byte) bool {
	span := &tracer.Span{}
	field := reflect.ValueOf(span).Elem().FieldByName("traceID")
	*(*uint64)(unsafe.Pointer(field.UnsafeAddr())) = binary.BigEndian.Uint64(id[8:])
	return sampler.Sample(span)
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	lines.Scan()
	ratios := strings.Fields(lines.Text())
	var ids [][16]byte
	for lines.Scan() {
		var id [16]byte
		if _, err := hex.Decode(id[:], lines.Bytes()); err != nil {
			panic(err)
		}
		ids = append(ids, id)
	}
	for _, text := range ratios {
		ratio, err := strconv.ParseFloat(text, 64)
		if err != nil {
			panic(err)
		}
		keep := decider(os.Args[1], ratio)
		for _, id := range ids {
			fmt.Print(map[bool]string{true: "1", false: "0"}[keep(id)])
		}
		fmt.Println()
	}
}
