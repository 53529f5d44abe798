import com.fasterxml.jackson.core.json.JsonWriteFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.json.JsonMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.internals.LogContext;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataDelta;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupTargetAssignmentMemberKey;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupTargetAssignmentMemberValue;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.ModernGroupMember;
import org.apache.kafka.coordinator.group.modern.TargetAssignmentBuilder;
import org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroup;
import org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroupMember;
import org.apache.kafka.coordinator.group.util.UpdatedMembersAndTargetAssignmentView;
import org.apache.kafka.timeline.SnapshotRegistry;

/**
 * The assignments of a broker's own assignors for a KIP-848 group, with the coordinator's own classes and tables.
 *
 * <p>The argument is {@code uniform} or {@code range}. Each line of standard input is a step of one group:
 * {@code {"new": true, "topics": {name: {"partitions": 3, "id": "..."}}, "leave": [id, ...], "members": [...],
 * "heartbeat": {...}}}. With {@code new}, the previous group is forgotten. Then members leave, and others are put into
 * the coordinator's table in this order, with their owned partitions as their last target. The member of the heartbeat,
 * which may be new, then makes the coordinator compute a target. The answer is a line
 * {@code {"assignment": {member: {topic: [partition, ...]}}}}, or {@code {"error": ...}}. The target becomes the
 * group's through the records that the coordinator writes and reads back.
 */
public final class ServerAssignorOracle {
    private final ObjectMapper json = JsonMapper.builder().enable(JsonWriteFeature.ESCAPE_NON_ASCII).build();
    private final ConsumerGroupPartitionAssignor assignor;
    private ConsumerGroup group;
    private int epoch;

    private ServerAssignorOracle(String name) {
        assignor = switch (name) {
            case "uniform" -> new UniformAssignor();
            case "range" -> new RangeAssignor();
            default -> throw new IllegalArgumentException("no such assignor: " + name);
        };
    }

    public static void main(String[] names) throws IOException {
        ServerAssignorOracle oracle = new ServerAssignorOracle(names[0]);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            System.out.println(oracle.json.writeValueAsString(oracle.step(oracle.json.readTree(line))));
            System.out.flush();
        }
    }

    private Map<String, Object> step(JsonNode step) {
        if (step.path("new").asBoolean()) {
            LogContext log = new LogContext();
            group = new ConsumerGroup(log, new SnapshotRegistry(log), "oracle");
            epoch = 0;
        }
        Topics topics = new Topics(step.get("topics"));
        for (JsonNode leaving : step.path("leave")) {
            group.removeTargetAssignment(leaving.textValue());
            group.removeMember(leaving.textValue());
        }
        for (JsonNode member : step.path("members")) {
            group.updateMember(member(member));
            if (member.has("owned"))
                group.updateTargetAssignment(member.get("id").textValue(), target(member.get("owned"), topics));
        }
        try {
            return Map.of("assignment", heartbeat(member(step.get("heartbeat")), topics));
        } catch (RuntimeException e) {
            return Map.of("error", e.toString());
        }
    }

    /** Does what {@code GroupMetadataManager.maybeUpdateTargetAssignment} does, and then replays its records. */
    private Map<String, Map<String, Set<Integer>>> heartbeat(ConsumerGroupMember member, Topics topics) {
        ConsumerGroupMember before = group.members().get(member.memberId());
        int count = group.numMembers() + (before == null ? 1 : 0);
        SubscriptionType type = ConsumerGroup.subscriptionType(
            group.computeSubscribedRegularExpressions(before, member),
            group.computeSubscribedTopicNames(before, member),
            count);
        UpdatedMembersAndTargetAssignmentView<ConsumerGroupMember, Assignment> view =
            new UpdatedMembersAndTargetAssignmentView<>(
                group.members(), group.staticMembers(), group.targetAssignment(), ModernGroupMember::instanceId);
        view.addOrUpdateMember(member.memberId(), member);
        List<CoordinatorRecord> records =
            new TargetAssignmentBuilder.ConsumerTargetAssignmentBuilder("oracle", ++epoch, assignor)
                .withTime(Time.SYSTEM)
                .withMembers(view.members())
                .withSubscriptionType(type)
                .withTargetAssignment(view.targetAssignment())
                .withInvertedTargetAssignment(group.invertedTargetAssignment())
                .withMetadataImage(topics)
                .build()
                .records();
        group.updateMember(member);
        for (CoordinatorRecord record : records)
            if (record.key() instanceof ConsumerGroupTargetAssignmentMemberKey key)
                group.updateTargetAssignment(key.memberId(), Assignment.fromRecord(
                    (ConsumerGroupTargetAssignmentMemberValue) record.value().message()));
        Map<String, Map<String, Set<Integer>>> answer = new TreeMap<>();
        for (String id : group.members().keySet()) {
            Map<String, Set<Integer>> byTopic = new TreeMap<>();
            group.targetAssignment(id).partitions().forEach(
                (topic, partitions) -> byTopic.put(topics.names.get(topic), new TreeSet<>(partitions)));
            answer.put(id, byTopic);
        }
        return answer;
    }

    private static ConsumerGroupMember member(JsonNode member) {
        List<String> topics = new ArrayList<>();
        member.get("topics").forEach(topic -> topics.add(topic.textValue()));
        return new ConsumerGroupMember.Builder(member.get("id").textValue())
            .setInstanceId(member.path("instance_id").textValue())
            .setRackId(member.path("rack").textValue())
            .setSubscribedTopicNames(topics)
            .build();
    }

    private static Assignment target(JsonNode owned, Topics topics) {
        List<ConsumerGroupTargetAssignmentMemberValue.TopicPartition> partitions = new ArrayList<>();
        owned.properties().forEach(entry -> {
            List<Integer> numbers = new ArrayList<>();
            entry.getValue().forEach(number -> numbers.add(number.intValue()));
            partitions.add(new ConsumerGroupTargetAssignmentMemberValue.TopicPartition()
                .setTopicId(topics.byName.get(entry.getKey()).id())
                .setPartitions(numbers));
        });
        return Assignment.fromRecord(new ConsumerGroupTargetAssignmentMemberValue().setTopicPartitions(partitions));
    }

    private record Topic(String name, Uuid id, int partitionCount) implements CoordinatorMetadataImage.TopicMetadata {
        @Override
        public List<String> partitionRacks(int partition) {
            return List.of();
        }
    }

    /** The topics of the cluster, as the coordinator sees them. */
    private static final class Topics implements CoordinatorMetadataImage {
        private final Map<String, Topic> byName = new LinkedHashMap<>();
        private final Map<Uuid, String> names = new HashMap<>();

        private Topics(JsonNode topics) {
            topics.properties().forEach(entry -> {
                Uuid id = Uuid.fromString(entry.getValue().get("id").textValue());
                byName.put(entry.getKey(), new Topic(entry.getKey(), id, entry.getValue().get("partitions").intValue()));
                names.put(id, entry.getKey());
            });
        }

        @Override
        public Set<Uuid> topicIds() {
            return names.keySet();
        }

        @Override
        public Set<String> topicNames() {
            return byName.keySet();
        }

        @Override
        public Optional<TopicMetadata> topicMetadata(String name) {
            return Optional.ofNullable(byName.get(name));
        }

        @Override
        public Optional<TopicMetadata> topicMetadata(Uuid id) {
            return Optional.ofNullable(names.get(id)).map(byName::get);
        }

        @Override
        public CoordinatorMetadataDelta emptyDelta() {
            throw new UnsupportedOperationException();
        }

        @Override
        public long version() {
            return 0;
        }

        @Override
        public boolean isEmpty() {
            return byName.isEmpty();
        }
    }
}
