// A server on grpc-java.
import io.grpc.HandlerRegistry;
import io.grpc.MethodDescriptor;
import io.grpc.ServerMethodDefinition;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import io.grpc.stub.ServerCalls;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.net.InetSocketAddress;
import java.util.HexFormat;

class Server {
  static final class Raw implements MethodDescriptor.Marshaller<byte[]> {
    @Override
    public InputStream stream(byte[] bytes) {
      return new ByteArrayInputStream(bytes);
    }

    @Override
    public byte[] parse(InputStream stream) {
      try {
        return stream.readAllBytes();
      } catch (IOException error) {
        throw new UncheckedIOException(error);
      }
    }
  }

  public static void main(String[] arguments) throws Exception {
    byte[] answer = HexFormat.of().parseHex(arguments[0]);
    HandlerRegistry registry =
        new HandlerRegistry() {
          @Override
          public ServerMethodDefinition<?, ?> lookupMethod(String name, String authority) {
            MethodDescriptor<byte[], byte[]> method =
                MethodDescriptor.newBuilder(new Raw(), new Raw())
                    .setType(MethodDescriptor.MethodType.UNARY)
                    .setFullMethodName(name)
                    .build();
            return ServerMethodDefinition.create(
                method,
                ServerCalls.asyncUnaryCall(
                    (byte[] message, io.grpc.stub.StreamObserver<byte[]> out) -> {
                      System.out.println(HexFormat.of().formatHex(message));
                      out.onNext(answer);
                      out.onCompleted();
                    }));
          }
        };
    io.grpc.Server server =
        NettyServerBuilder.forAddress(new InetSocketAddress("127.0.0.1", 0))
            .fallbackHandlerRegistry(registry)
            .build()
            .start();
    System.out.println(server.getPort());
    System.in.readAllBytes();
    server.shutdownNow();
  }
}
