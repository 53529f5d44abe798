import com.fasterxml.jackson.core.json.JsonWriteFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.coordinator.group.generated.CoordinatorRecordJsonConverters;
import org.apache.kafka.coordinator.group.generated.CoordinatorRecordType;

/**
 * Writes and reads bytes with the classes of Java's consumer and broker.
 *
 * <p>Each line of standard input is {@code {"kind", "version", "fields"}} and is answered with {@code {"hex"}}, or it is
 * {@code {"kind", "version", "hex"}} and is answered with {@code {"fields"}}, or with {@code {"error"}}.
 *
 * <table>
 *   <tr><th>kind</th><th>version</th><th>fields</th></tr>
 *   <tr><td>subscription</td><td>its own</td><td>topics, user_data, owned, generation, rack</td></tr>
 *   <tr><td>assignment</td><td>its own</td><td>partitions, user_data</td></tr>
 *   <tr><td>sticky, cooperative-sticky</td><td>ignored</td><td>owned, generation (the user data)</td></tr>
 *   <tr><td>record_key</td><td>type of the record</td><td>as in the schema</td></tr>
 *   <tr><td>group_metadata</td><td>its own</td><td>as in the schema (the value of a record)</td></tr>
 *   <tr><td>consumer_group</td><td>type of the record</td><td>as in the schema (the value of a record)</td></tr>
 * </table>
 *
 * <p>User data are hexadecimal digits, or null; partitions are lists by topic.
 */
public final class JavaBytes {
    private static final HexFormat HEX = HexFormat.of();
    private static final JsonNodeFactory NODES = JsonNodeFactory.instance;

    /** The only version of the values of consumer groups; the type of the record tells their kind. */
    private static final short CONSUMER_GROUP_VERSION = 0;

    public static void main(String[] args) throws IOException {
        ObjectMapper json = JsonMapper.builder().enable(JsonWriteFeature.ESCAPE_NON_ASCII).build();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ObjectNode answer = NODES.objectNode();
            try {
                JsonNode question = json.readTree(line);
                String kind = question.get("kind").textValue();
                short version = question.get("version").shortValue();
                if (question.has("hex"))
                    answer.set("fields", read(kind, version, ByteBuffer.wrap(HEX.parseHex(question.get("hex").textValue()))));
                else
                    answer.put("hex", hex(write(kind, version, question.get("fields"))));
            } catch (RuntimeException e) {
                answer.put("error", e.toString());
            }
            System.out.println(json.writeValueAsString(answer));
            System.out.flush();
        }
    }

    private static ByteBuffer write(String kind, short version, JsonNode fields) {
        return switch (kind) {
            case "subscription" -> ConsumerProtocol.serializeSubscription(
                new Subscription(
                    texts(fields.get("topics")),
                    bytes(fields.get("user_data")),
                    partitions(fields.get("owned")),
                    fields.get("generation").intValue(),
                    Optional.ofNullable(fields.get("rack").textValue())),
                version);
            case "assignment" -> ConsumerProtocol.serializeAssignment(
                new Assignment(partitions(fields.get("partitions")), bytes(fields.get("user_data"))), version);
            case "sticky" -> userData(new StickyAssignor(), fields);
            case "cooperative-sticky" -> userData(new CooperativeStickyAssignor(), fields);
            case "record_key" -> MessageUtil.toCoordinatorTypePrefixedByteBuffer(
                CoordinatorRecordJsonConverters.readRecordKeyFromJson(fields, version));
            case "group_metadata" -> MessageUtil.toVersionPrefixedByteBuffer(
                version,
                CoordinatorRecordJsonConverters.readRecordValueFromJson(
                    fields, CoordinatorRecordType.GROUP_METADATA.id(), version));
            case "consumer_group" -> MessageUtil.toVersionPrefixedByteBuffer(
                CONSUMER_GROUP_VERSION,
                CoordinatorRecordJsonConverters.readRecordValueFromJson(fields, version, CONSUMER_GROUP_VERSION));
            default -> throw new IllegalArgumentException("no such kind: " + kind);
        };
    }

    private static JsonNode read(String kind, short version, ByteBuffer buffer) {
        ObjectNode fields = NODES.objectNode();
        switch (kind) {
            case "subscription" -> {
                Subscription subscription = ConsumerProtocol.deserializeSubscription(buffer);
                ArrayNode topics = fields.putArray("topics");
                subscription.topics().forEach(topics::add);
                fields.put("user_data", hex(subscription.userData()));
                fields.set("owned", byTopic(subscription.ownedPartitions()));
                fields.put("generation", subscription.generationId().orElse(-1));
                fields.put("rack", subscription.rackId().orElse(null));
            }
            case "assignment" -> {
                Assignment assignment = ConsumerProtocol.deserializeAssignment(buffer);
                fields.set("partitions", byTopic(assignment.partitions()));
                fields.put("user_data", hex(assignment.userData()));
            }
            case "sticky" -> new StickyUserData().read(buffer, fields);
            case "cooperative-sticky" -> new CooperativeStickyUserData().read(buffer, fields);
            case "record_key" -> {
                ApiMessage key = CoordinatorRecordType.fromId(buffer.getShort()).newRecordKey();
                key.read(new ByteBufferAccessor(buffer), (short) 0);
                return atEnd(buffer, CoordinatorRecordJsonConverters.writeRecordKeyAsJson(key));
            }
            case "group_metadata" -> {
                short written = buffer.getShort();
                ApiMessage value = CoordinatorRecordType.GROUP_METADATA.newRecordValue();
                value.read(new ByteBufferAccessor(buffer), written);
                return atEnd(buffer, CoordinatorRecordJsonConverters.writeRecordValueAsJson(value, written));
            }
            case "consumer_group" -> {
                short written = buffer.getShort();
                ApiMessage value = CoordinatorRecordType.fromId(version).newRecordValue();
                value.read(new ByteBufferAccessor(buffer), written);
                return atEnd(buffer, CoordinatorRecordJsonConverters.writeRecordValueAsJson(value, written));
            }
            default -> throw new IllegalArgumentException("no such kind: " + kind);
        }
        return fields;
    }

    private static JsonNode atEnd(ByteBuffer buffer, JsonNode fields) {
        if (buffer.hasRemaining())
            throw new IllegalStateException(buffer.remaining() + " bytes left over");
        return fields;
    }

    @SuppressWarnings("removal") // The only way to tell an assignor its generation without a running consumer.
    private static ByteBuffer userData(ConsumerPartitionAssignor assignor, JsonNode fields) {
        assignor.onAssignment(
            new Assignment(partitions(fields.get("owned"))),
            new ConsumerGroupMetadata("group", fields.get("generation").intValue(), "", Optional.empty()));
        return assignor.subscriptionUserData(Set.of());
    }

    /** Only subclasses of the assignors can read the user data as a leader does. */
    private static final class StickyUserData extends StickyAssignor {
        void read(ByteBuffer buffer, ObjectNode fields) {
            tell(memberData(new Subscription(List.of(), buffer)), fields);
        }
    }

    private static final class CooperativeStickyUserData extends CooperativeStickyAssignor {
        void read(ByteBuffer buffer, ObjectNode fields) {
            tell(memberData(new Subscription(List.of(), buffer)), fields);
        }
    }

    private static void tell(StickyAssignor.MemberData data, ObjectNode fields) {
        fields.set("owned", byTopic(data.partitions));
        fields.put("generation", data.generation.orElse(-1));
    }

    private static List<String> texts(JsonNode array) {
        List<String> texts = new ArrayList<>();
        array.forEach(text -> texts.add(text.textValue()));
        return texts;
    }

    private static List<TopicPartition> partitions(JsonNode byTopic) {
        List<TopicPartition> partitions = new ArrayList<>();
        byTopic.properties().forEach(entry ->
            entry.getValue().forEach(p -> partitions.add(new TopicPartition(entry.getKey(), p.intValue()))));
        return partitions;
    }

    private static ObjectNode byTopic(List<TopicPartition> partitions) {
        ObjectNode byTopic = NODES.objectNode();
        for (TopicPartition tp : partitions) {
            JsonNode known = byTopic.get(tp.topic());
            (known == null ? byTopic.putArray(tp.topic()) : (ArrayNode) known).add(tp.partition());
        }
        return byTopic;
    }

    private static ByteBuffer bytes(JsonNode hex) {
        return hex.isNull() ? null : ByteBuffer.wrap(HEX.parseHex(hex.textValue()));
    }

    private static String hex(ByteBuffer buffer) {
        return buffer == null ? null : HEX.formatHex(MessageUtil.byteBufferToArray(buffer));
    }
}
