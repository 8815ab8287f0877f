// A server on grpc-js.
import { Server, ServerCredentials } from "@grpc/grpc-js";

const answer = Buffer.from(process.argv[2], "hex");
const identity = (bytes) => bytes;
const server = new Server();
server.addService(
  {
    Export: {
      path: "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
      requestStream: false,
      responseStream: false,
      requestSerialize: identity,
      requestDeserialize: identity,
      responseSerialize: identity,
      responseDeserialize: identity,
    },
  },
  {
    Export: (call, callback) => {
      console.log(call.request.toString("hex"));
      callback(null, answer);
    },
  },
);
server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, port) => {
  if (error) throw error;
  console.log(port);
});
process.stdin.resume();
process.stdin.on("end", () => process.exit(0));
