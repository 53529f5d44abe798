import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.coordinator.group.generated.CoordinatorRecordType;
import org.apache.kafka.coordinator.group.generated.GroupMetadataValue;

/**
 * CPU time of Kafka's own classes for decoding records of classic groups: key, value, subscriptions and assignments.
 *
 * <p>The argument is a file of {@code benchmarks/decode.py}: for each record the length of its key (int32), the key,
 * the length of its value, the value. Each line of standard input is answered with
 * {@code {"cpu_ns": 1234, "partitions": 56}}: the CPU time of the thread for decoding all records once, and the number
 * of assigned partitions.
 */
public final class DecodeBenchmark {
    private DecodeBenchmark() {
    }

    public static void main(String[] args) throws IOException {
        List<byte[][]> records = new ArrayList<>();
        ByteBuffer file = ByteBuffer.wrap(Files.readAllBytes(Path.of(args[0])));
        while (file.hasRemaining())
            records.add(new byte[][] {next(file), next(file)});
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            long start = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
            long partitions = 0;
            for (byte[][] record : records)
                partitions += decode(ByteBuffer.wrap(record[0]), ByteBuffer.wrap(record[1]));
            long cpuNs = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime() - start;
            System.out.println("{\"cpu_ns\": " + cpuNs + ", \"partitions\": " + partitions + "}");
            System.out.flush();
        }
    }

    private static byte[] next(ByteBuffer file) {
        byte[] bytes = new byte[file.getInt()];
        file.get(bytes);
        return bytes;
    }

    private static long decode(ByteBuffer keyBytes, ByteBuffer valueBytes) {
        ApiMessage key = CoordinatorRecordType.fromId(keyBytes.getShort()).newRecordKey();
        key.read(new ByteBufferAccessor(keyBytes), (short) 0);
        GroupMetadataValue value = new GroupMetadataValue(new ByteBufferAccessor(valueBytes), valueBytes.getShort());
        long partitions = 0;
        for (GroupMetadataValue.MemberMetadata member : value.members()) {
            ConsumerProtocol.deserializeSubscription(ByteBuffer.wrap(member.subscription()));
            partitions += ConsumerProtocol.deserializeAssignment(ByteBuffer.wrap(member.assignment())).partitions().size();
        }
        return partitions;
    }
}
