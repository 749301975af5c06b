import org.apache.spark.connect.proto.ConfigRequest;
import org.sparkproject.connect.grpc.ForwardingServerCallListener;
import org.sparkproject.connect.grpc.Metadata;
import org.sparkproject.connect.grpc.ServerCall;
import org.sparkproject.connect.grpc.ServerCallHandler;
import org.sparkproject.connect.grpc.ServerInterceptor;
import org.sparkproject.connect.grpc.Status;

/** Lets no client of Spark Connect set anything, or send files. */
public class Refusing implements ServerInterceptor {
    @Override
    public <Q, S> ServerCall.Listener<Q> interceptCall(
            ServerCall<Q, S> call, Metadata headers, ServerCallHandler<Q, S> next) {
        if (call.getMethodDescriptor().getFullMethodName().endsWith("/AddArtifacts")) {
            call.close(Status.PERMISSION_DENIED.withDescription("files are forbidden"), new Metadata());
            return new ServerCall.Listener<Q>() {};
        }
        return new ForwardingServerCallListener.SimpleForwardingServerCallListener<Q>(next.startCall(call, headers)) {
            private boolean isClosed;

            @Override
            public void onMessage(Q message) {
                if (message instanceof ConfigRequest && ((ConfigRequest) message).getOperation().hasSet()) {
                    call.close(Status.PERMISSION_DENIED.withDescription("settings are locked"), new Metadata());
                    isClosed = true;
                } else {
                    super.onMessage(message);
                }
            }

            @Override
            public void onHalfClose() {
                if (!isClosed) {
                    super.onHalfClose();
                }
            }
        };
    }
}
