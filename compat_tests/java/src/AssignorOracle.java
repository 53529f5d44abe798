import com.fasterxml.jackson.core.json.JsonWriteFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.node.MissingNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupAssignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/**
 * The assignments of Kafka's own assignors for a group.
 *
 * <p>Arguments are names of assignors: range, roundrobin, sticky, cooperative-sticky. Each line of standard input is a
 * group in the JSON form of {@code kafka_assignors.group_json}; each is answered at once with a line
 * {@code {"range": {"assignment": {member: {topic: [partition, ...]}}}, ...}}, or with {@code {"error": ...}} instead of
 * an assignment when the assignor throws. The cooperative assignor's answer is that of one round: partitions that
 * another member still owns are withheld.
 *
 * <p>Every member describes itself as a Java consumer does: owned partitions, generation and rack in the subscription,
 * and the assignor's own user data. A member with {@code "joined"} is of another client: the value is its metadata in
 * hexadecimal digits. Each group is assigned by new assignors, because assignors keep state.
 *
 * <p>A group with {@code "subscriptions": true} is not assigned. It is answered with the metadata with which Java
 * members with this state would join, {@code {"range": {member: hex, ...}, ...}}.
 *
 * <p>The assignors kip848-uniform and kip848-range are those of a broker. Their topics need an id.
 */
public final class AssignorOracle {
    private static final HexFormat HEX = HexFormat.of();

    private final ObjectMapper json =
        JsonMapper.builder().enable(JsonWriteFeature.ESCAPE_NON_ASCII).build();
    private final Map<String, Node> nodes = new HashMap<>();

    public static void main(String[] names) throws IOException {
        AssignorOracle oracle = new AssignorOracle();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            System.out.println(oracle.json.writeValueAsString(oracle.answer(oracle.json.readTree(line), names)));
            System.out.flush();
        }
    }

    static ConsumerPartitionAssignor newAssignor(String name) {
        return switch (name) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            case "sticky" -> new StickyAssignor();
            case "cooperative-sticky" -> new CooperativeStickyAssignor();
            default -> throw new IllegalArgumentException("no such assignor: " + name);
        };
    }

    private Map<String, Object> answer(JsonNode group, String[] names) {
        Cluster cluster = cluster(group.get("topics"));
        Map<String, Object> answers = new LinkedHashMap<>();
        if (group.path("subscriptions").asBoolean()) {
            for (String name : names)
                answers.put(name, joined(name, group.get("members")));
            return answers;
        }
        for (String name : names) {
            if (name.startsWith("kip848-")) {
                answers.put(name, Map.of("assignment", ofBroker(name, group)));
                continue;
            }
            Map<String, Subscription> subscriptions = new HashMap<>();
            for (JsonNode member : group.get("members"))
                subscriptions.put(member.get("id").textValue(), subscription(name, member));
            try {
                GroupAssignment given = newAssignor(name).assign(cluster, new GroupSubscription(subscriptions));
                answers.put(name, Map.of("assignment", byMember(given)));
            } catch (RuntimeException e) {
                answers.put(name, Map.of("error", e.toString()));
            }
        }
        return answers;
    }

    /** The owned partitions of the members are their last target. */
    private static Map<String, Map<String, Set<Integer>>> ofBroker(String name, JsonNode group) {
        Map<String, Uuid> ids = new HashMap<>();
        Map<Uuid, String> names = new HashMap<>();
        Map<Uuid, Integer> counts = new HashMap<>();
        group.get("topics").properties().forEach(entry -> {
            Uuid id = Uuid.fromString(entry.getValue().get("id").textValue());
            ids.put(entry.getKey(), id);
            names.put(id, entry.getKey());
            counts.put(id, entry.getValue().get("partitions").intValue());
        });
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        Set<Set<String>> subscriptions = new HashSet<>();
        for (JsonNode member : group.get("members")) {
            Set<String> topics = new HashSet<>();
            member.get("topics").forEach(topic -> topics.add(topic.textValue()));
            subscriptions.add(Set.copyOf(topics));
            topics.retainAll(ids.keySet());
            String id = member.get("id").textValue();
            Map<Uuid, Set<Integer>> owned = new HashMap<>();
            member.path("owned").properties().forEach(entry -> entry.getValue().forEach(partition -> {
                Uuid topic = ids.get(entry.getKey());
                owned.computeIfAbsent(topic, t -> new HashSet<>()).add(partition.intValue());
                owners.computeIfAbsent(topic, t -> new HashMap<>()).put(partition.intValue(), id);
            }));
            members.put(id, new MemberSubscriptionAndAssignmentImpl(
                text(member.path("rack")),
                text(member.path("instance_id")),
                topics.stream().map(ids::get).collect(Collectors.toSet()),
                new org.apache.kafka.coordinator.group.modern.Assignment(owned)));
        }
        ConsumerGroupPartitionAssignor assignor = name.equals("kip848-uniform")
            ? new UniformAssignor()
            : new org.apache.kafka.coordinator.group.assignor.RangeAssignor();
        SubscriptionType type =
            subscriptions.size() < 2 ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        Map<String, Map<String, Set<Integer>>> answer = new TreeMap<>();
        members.keySet().forEach(member -> answer.put(member, new TreeMap<>()));
        assignor.assign(new GroupSpecImpl(members, type, owners), new Counts(counts)).members().forEach(
            (member, assigned) -> {
                Map<String, Set<Integer>> topics = new TreeMap<>();
                assigned.partitions().forEach(
                    (topic, partitions) -> topics.put(names.get(topic), new TreeSet<>(partitions)));
                answer.put(member, topics);
            });
        return answer;
    }

    private record Counts(Map<Uuid, Integer> counts) implements SubscribedTopicDescriber {
        @Override
        public int numPartitions(Uuid topic) {
            return counts.getOrDefault(topic, -1);
        }

        @Override
        public Set<String> racksForPartition(Uuid topic, int partition) {
            return Set.of();
        }
    }

    Cluster cluster(JsonNode topics) {
        List<PartitionInfo> partitions = new ArrayList<>();
        topics.properties().forEach(entry -> {
            JsonNode topic = entry.getValue();
            JsonNode replicaRacks = topic.path("replica_racks");
            for (int p = 0; p < topic.get("partitions").intValue(); p++) {
                Node[] replicas = replicas(replicaRacks.path(p));
                partitions.add(new PartitionInfo(entry.getKey(), p, replicas[0], replicas, replicas));
            }
        });
        return new Cluster("oracle", nodes.values(), partitions, Set.of(), Set.of());
    }

    private Node[] replicas(JsonNode racks) {
        if (racks.isEmpty())
            return new Node[] {Node.noNode()};
        Node[] replicas = new Node[racks.size()];
        for (int i = 0; i < replicas.length; i++)
            replicas[i] = nodes.computeIfAbsent(
                racks.get(i).textValue(), rack -> new Node(nodes.size(), "localhost", 9092, rack));
        return replicas;
    }

    private static Map<String, String> joined(String assignorName, JsonNode members) {
        Map<String, String> joined = new TreeMap<>();
        for (JsonNode member : members) {
            ByteBuffer bytes = ConsumerProtocol.serializeSubscription(subscription(assignorName, member));
            joined.put(member.get("id").textValue(), HEX.formatHex(Utils.toArray(bytes)));
        }
        return joined;
    }

    private static Subscription subscription(String assignorName, JsonNode member) {
        if (member.has("joined")) {
            ByteBuffer bytes = ByteBuffer.wrap(HEX.parseHex(member.get("joined").textValue()));
            Subscription subscription = ConsumerProtocol.deserializeSubscription(bytes);
            subscription.setGroupInstanceId(text(member.path("instance_id")));
            return subscription;
        }
        List<String> topics = new ArrayList<>();
        member.get("topics").forEach(topic -> topics.add(topic.textValue()));
        List<TopicPartition> owned = new ArrayList<>();
        member.path("owned").properties().forEach(entry ->
            entry.getValue().forEach(p -> owned.add(new TopicPartition(entry.getKey(), p.intValue()))));
        int generation = member.path("generation").asInt(-1);
        Optional<String> rack = text(member.path("rack"));

        // The user data that this member's assignor would write, which remembers its last assignment.
        ConsumerPartitionAssignor own = newAssignor(assignorName);
        if (generation >= 0)
            own.onAssignment(new Assignment(owned), groupMetadata(generation));
        ByteBuffer userData = own.subscriptionUserData(new HashSet<>(topics));

        // An eager member has revoked all its partitions before it joins, and sends none.
        boolean eager = !assignorName.equals("cooperative-sticky");
        Subscription subscription =
            new Subscription(topics, userData, eager ? List.of() : owned, generation, rack);
        subscription.setGroupInstanceId(text(member.path("instance_id")));
        return subscription;
    }

    @SuppressWarnings("removal") // The only way to tell an assignor its generation without a running consumer.
    private static ConsumerGroupMetadata groupMetadata(int generation) {
        return new ConsumerGroupMetadata("oracle", generation, "", Optional.empty());
    }

    private static Optional<String> text(JsonNode node) {
        return node instanceof MissingNode || node.isNull() ? Optional.empty() : Optional.of(node.textValue());
    }

    private static Map<String, Map<String, List<Integer>>> byMember(GroupAssignment assignment) {
        Map<String, Map<String, List<Integer>>> members = new TreeMap<>();
        assignment.groupAssignment().forEach((member, assigned) -> {
            Map<String, List<Integer>> topics = new TreeMap<>();
            for (TopicPartition tp : assigned.partitions())
                topics.computeIfAbsent(tp.topic(), t -> new ArrayList<>()).add(tp.partition());
            topics.values().forEach(Collections::sort); // A partition that is assigned twice appears twice.
            members.put(member, topics);
        });
        return members;
    }
}
