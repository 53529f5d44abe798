import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupAssignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;

/**
 * CPU time of one of Kafka's own assignors.
 *
 * <p>Arguments: range, sticky or cooperative-sticky, and a file of {@code benchmarks/group_file.py}. Each line of
 * standard input, {@code {"do": "assign", "calls": 3}}, is answered with the CPU time of that many calls in a row,
 * {@code {"cpu_ns": 1234, "process_cpu_ns": 1300}}: that of the calling thread alone, and that of the process with its
 * compiler and garbage collector. {@code assign} is the assignor's call on decoded members; {@code lead} goes from the
 * bytes of the members' JoinGroup requests to the bytes of their assignments.
 */
public final class AssignBenchmark {
    private final String assignorName;
    private final Cluster cluster;
    private final Map<String, ByteBuffer> joined = new HashMap<>();
    private GroupSubscription decoded;

    public static void main(String[] args) throws IOException {
        ObjectMapper json = new ObjectMapper();
        AssignBenchmark benchmark = new AssignBenchmark(args[0], json.readTree(new File(args[1])));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode question = json.readTree(line);
            Map<String, Long> answer = benchmark.time(question.get("do").textValue(), question.get("calls").intValue());
            System.out.println(json.writeValueAsString(answer));
            System.out.flush();
        }
    }

    private AssignBenchmark(String assignorName, JsonNode group) throws IOException {
        this.assignorName = assignorName;
        this.cluster = new AssignorOracle().cluster(group.get("topics"));
        String kind = assignorName.equals("cooperative-sticky") ? "cooperative" : "eager";
        for (JsonNode member : group.get("members"))
            joined.put(member.get("id").textValue(), ByteBuffer.wrap(member.get(kind).binaryValue()));
        // A consumer creates its assignor, which sets up the log, long before it leads.
        AssignorOracle.newAssignor(assignorName);
    }

    private Map<String, Long> time(String what, int calls) {
        boolean assignAlone = what.equals("assign");
        if (assignAlone && decoded == null)
            decoded = subscriptions();
        System.gc();
        long processStart = processCpuNs();
        long start = threadCpuNs();
        int members = 0;
        for (int call = 0; call < calls; call++)
            members += assignAlone ? assign(decoded).groupAssignment().size() : lead();
        long threadNs = threadCpuNs() - start;
        long processNs = processCpuNs() - processStart;
        if (members != calls * joined.size())
            throw new IllegalStateException("not everybody was answered");
        return Map.of("cpu_ns", threadNs, "process_cpu_ns", processNs);
    }

    private GroupSubscription subscriptions() {
        Map<String, Subscription> subscriptions = new HashMap<>();
        joined.forEach((member, bytes) ->
            subscriptions.put(member, ConsumerProtocol.deserializeSubscription(bytes.duplicate())));
        return new GroupSubscription(subscriptions);
    }

    private GroupAssignment assign(GroupSubscription subscriptions) {
        return AssignorOracle.newAssignor(assignorName).assign(cluster, subscriptions);
    }

    private int lead() {
        Map<String, ByteBuffer> answers = new HashMap<>();
        assign(subscriptions()).groupAssignment().forEach((member, assignment) ->
            answers.put(member, ConsumerProtocol.serializeAssignment(assignment)));
        return answers.size();
    }

    private static long threadCpuNs() {
        return ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
    }

    private static long processCpuNs() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean())
            .getProcessCpuTime();
    }
}
