import io.grpc.Metadata;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.ServerInterceptors;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.internal.GrpcUtil;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import io.grpc.services.MetricRecorder;
import io.grpc.stub.StreamObserver;
import io.grpc.testing.integration.Messages.EchoStatus;
import io.grpc.testing.integration.Messages.ResponseParameters;
import io.grpc.testing.integration.Messages.Payload;
import io.grpc.testing.integration.Messages.SimpleRequest;
import io.grpc.testing.integration.Messages.SimpleResponse;
import io.grpc.testing.integration.Messages.StreamingOutputCallRequest;
import io.grpc.testing.integration.Messages.StreamingOutputCallResponse;
import io.grpc.testing.integration.TestServiceImpl;
import io.grpc.xds.orca.OrcaMetricReportingServerInterceptor;
import io.grpc.xds.orca.OrcaServiceImpl;
import com.google.protobuf.ByteString;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;

/**
 * The test service of gRPC's interop cases, on grpc-netty-shaded: that of
 * grpc-interop-testing, with the few things that it lacks.
 *
 * <p>Usage: Server [LIMIT]. README.md of the folder above says what a server prints
 * and reads.
 */
public final class Server {
  private Server() {}

  static synchronized void say(String line) {
    System.out.println(line);
    System.out.flush();
  }

  /** What the client asked for in metadata, which TestServiceImpl does not read. */
  static final class Behavior implements ServerInterceptor {
    static final io.grpc.Context.Key<String> KEY = io.grpc.Context.key("behavior");
    private static final Metadata.Key<String> NAME =
        Metadata.Key.of("x-behavior", Metadata.ASCII_STRING_MARSHALLER);

    @Override
    public <Q, R> ServerCall.Listener<Q> interceptCall(
        ServerCall<Q, R> call, Metadata headers, ServerCallHandler<Q, R> next) {
      String behavior = headers.get(NAME);
      if ("headers".equals(behavior)) {
        call.sendHeaders(new Metadata());
      }
      io.grpc.Context context = io.grpc.Context.current().withValue(KEY, behavior);
      return io.grpc.Contexts.interceptCall(context, call, headers, next);
    }
  }

  static final class Service extends TestServiceImpl {
    Service(ScheduledExecutorService executor, MetricRecorder recorder) {
      super(executor, recorder);
    }

    @Override
    public void unaryCall(SimpleRequest request, StreamObserver<SimpleResponse> observer) {
      String behavior = Behavior.KEY.get();
      if ("crash".equals(behavior)) {
        throw new IllegalStateException("asked to crash");
      }
      if ("headers".equals(behavior)) { // they are sent; the rest would send them again
        observer.onError(error(request.getResponseStatus()));
        return;
      }
      if ("hang".equals(behavior)) {
        say("hanging");
        return;
      }
      if (request.getFillServerId()) {
        observer.onNext(SimpleResponse.newBuilder()
            .setServerId("java")
            .setPayload(payload(request.getResponseSize()))
            .build());
        observer.onCompleted();
        return;
      }
      super.unaryCall(request, observer);
    }

    @Override
    public void streamingOutputCall(
        StreamingOutputCallRequest request, StreamObserver<StreamingOutputCallResponse> observer) {
      EchoStatus status = request.getResponseStatus();
      if (status.getCode() == 0) {
        super.streamingOutputCall(request, observer);
        return;
      }
      for (ResponseParameters parameters : request.getResponseParametersList()) {
        observer.onNext(StreamingOutputCallResponse.newBuilder()
            .setPayload(payload(parameters.getSize()))
            .build());
      }
      observer.onError(error(status));
    }

    private static StatusRuntimeException error(EchoStatus status) {
      return Status.fromCodeValue(status.getCode())
          .withDescription(status.getMessage())
          .asRuntimeException();
    }

    private static Payload payload(int size) {
      return Payload.newBuilder().setBody(ByteString.copyFrom(new byte[size])).build();
    }
  }

  public static void main(String[] args) throws Exception {
    ScheduledExecutorService executor = Executors.newScheduledThreadPool(2);
    MetricRecorder recorder = MetricRecorder.newInstance();
    NettyServerBuilder builder = NettyServerBuilder
        .forAddress(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0))
        .addService(ServerInterceptors.intercept(
            new Service(executor, recorder), TestServiceImpl.interceptors()))
        .addService(OrcaServiceImpl.createService(executor, recorder, 1, TimeUnit.SECONDS))
        .intercept(new Behavior())
        .intercept(OrcaMetricReportingServerInterceptor.create(recorder));
    if (args.length > 0) {
      builder.maxConcurrentCallsPerConnection(Integer.parseInt(args[0]));
    }
    io.grpc.Server server = builder.build().start();
    say("ready " + server.getPort() + " " + GrpcUtil.getGrpcBuildVersion().getImplementationVersion());

    BufferedReader commands =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = commands.readLine(); line != null; line = commands.readLine()) {
      switch (line) {
        case "drain":
          server.shutdown();
          break;
        case "stop":
          server.shutdownNow();
          say("stopped");
          break;
        default:
      }
    }
    System.exit(0);
  }
}
