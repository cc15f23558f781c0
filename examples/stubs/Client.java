import com.google.protobuf.ByteString;
import dev.tensorkv.v1.DType;
import dev.tensorkv.v1.DataGrpc;
import dev.tensorkv.v1.InitEntry;
import dev.tensorkv.v1.InitRequest;
import dev.tensorkv.v1.PullEntry;
import dev.tensorkv.v1.PullRequest;
import dev.tensorkv.v1.PushEntry;
import dev.tensorkv.v1.PushRequest;
import dev.tensorkv.v1.Tensor;
import dev.tensorkv.v1.Value;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;

/**
 * A client of generated stubs alone: stores a tensor, pushes another over it, and prints what the
 * server has then. docs/protocol.md says how to build it.
 *
 * <p>Client [HOST:PORT]
 */
public final class Client {
  private static Tensor toTensor(List<Long> shape, float... elements) {
    ByteBuffer data = ByteBuffer.allocate(elements.length * Float.BYTES);
    data.order(ByteOrder.LITTLE_ENDIAN).asFloatBuffer().put(elements);
    return Tensor.newBuilder()
        .setDtype(DType.DTYPE_F32)
        .addAllShape(shape)
        .setData(ByteString.copyFrom(data))
        .build();
  }

  /** REQUIRES: the tensor is of f32. */
  private static float[] elementsOf(Tensor tensor) {
    float[] elements = new float[tensor.getData().size() / Float.BYTES];
    ByteBuffer data = tensor.getData().asReadOnlyByteBuffer();
    data.order(ByteOrder.LITTLE_ENDIAN).asFloatBuffer().get(elements);
    return elements;
  }

  private static Value pushAndPull(DataGrpc.DataBlockingStub kv, String key) {
    List<Long> shape = List.of(2L, 3L);
    Tensor zeros = toTensor(shape, new float[6]);
    InitEntry init = InitEntry.newBuilder().setKey(key).setTensor(zeros).build();
    kv.init(InitRequest.newBuilder().addEntries(init).build());
    Tensor update = toTensor(shape, 1, 2, 3, 4, 5, 6);
    PushEntry push = PushEntry.newBuilder().setKey(key).setTensor(update).build();
    kv.push(PushRequest.newBuilder().addEntries(push).build());
    PullEntry pull = PullEntry.newBuilder().setKey(key).build();
    return kv.pull(PullRequest.newBuilder().addEntries(pull).build()).getValues(0);
  }

  public static void main(String[] args) {
    String address = args.length > 0 ? args[0] : "127.0.0.1:7363";
    ManagedChannel channel = ManagedChannelBuilder.forTarget(address).usePlaintext().build();
    try {
      DataGrpc.DataBlockingStub kv =
          DataGrpc.newBlockingStub(channel).withDeadlineAfter(20, TimeUnit.SECONDS);
      Value value = pushAndPull(kv, "java");
      System.out.printf(
          "version %d: %s%n", value.getVersion(), Arrays.toString(elementsOf(value.getTensor())));
    } finally {
      channel.shutdownNow();
    }
  }
}
