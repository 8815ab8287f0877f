import io.opentelemetry.api.common.Attributes;
import io.opentelemetry.api.trace.SpanKind;
import io.opentelemetry.context.Context;
import io.opentelemetry.sdk.trace.samplers.Sampler;
import io.opentelemetry.sdk.trace.samplers.SamplingDecision;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.List;

/** Asks the ratio sampler of OpenTelemetry for Java; see ../record.py. */
public final class Main {
  public static void main(String[] arguments) throws Exception {
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
    String[] ratios = input.readLine().split(" ");
    List<String> ids = input.lines().toList();
    for (String ratio : ratios) {
      Sampler sampler = Sampler.traceIdRatioBased(Double.parseDouble(ratio));
      StringBuilder line = new StringBuilder();
      for (String id : ids) {
        boolean isKept =
            sampler
                .shouldSample(Context.root(), id, "", SpanKind.INTERNAL, Attributes.empty(), List.of())
                .getDecision()
                .equals(SamplingDecision.RECORD_AND_SAMPLE);
        line.append(isKept ? '1' : '0');
      }
      System.out.println(line);
    }
  }
}
