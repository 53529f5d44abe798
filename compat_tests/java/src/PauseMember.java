import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * The Java member of {@code benchmarks/pause}: see {@code benchmarks/pause/members} for the settings of a member, and
 * {@code benchmarks/pause/journal.py} for its journal.
 */
public final class PauseMember implements ConsumerRebalanceListener {
    private static final int READY = 1;
    private static final int DELIVERED = 2;
    private static final int ASSIGNED = 3;
    private static final int REVOKED = 4;
    private static final int LEFT = 5;
    private static final long CAPACITY_BYTES = 64 << 20;
    private static final int FETCH_BYTES = 1 << 20;

    private final MappedByteBuffer journal;
    private final JsonNode spec;
    private KafkaConsumer<byte[], byte[]> consumer;
    private volatile boolean stopping;

    private PauseMember(JsonNode spec) throws IOException {
        this.spec = spec;
        Path file = Path.of(spec.get("journal").asText());
        try (FileChannel channel = FileChannel.open(
                file, StandardOpenOption.CREATE, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            journal = channel.map(FileChannel.MapMode.READ_WRITE, 0, CAPACITY_BYTES);
        }
        journal.order(ByteOrder.LITTLE_ENDIAN);
    }

    public static void main(String[] args) throws IOException {
        PauseMember member = new PauseMember(new ObjectMapper().readTree(args[0]));
        member.consumer = new KafkaConsumer<>(
            member.config(), new ByteArrayDeserializer(), new ByteArrayDeserializer());
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            member.stopping = true;
            member.consumer.wakeup();
            try {
                main.join(Duration.ofSeconds(20).toMillis());
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }));
        member.add(0, -1, -1, READY);
        if (new BufferedReader(new InputStreamReader(System.in)).readLine() != null)
            member.consume();
    }

    private Properties config() {
        Properties config = new Properties();
        config.put(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, spec.get("bootstrap").asText());
        config.put(ConsumerConfig.GROUP_ID_CONFIG, spec.get("group").asText());
        config.put(ConsumerConfig.CLIENT_ID_CONFIG, spec.get("name").asText());
        config.put(ConsumerConfig.PARTITION_ASSIGNMENT_STRATEGY_CONFIG, List.of(CooperativeStickyAssignor.class));
        config.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        config.put(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG, spec.get("session_timeout_ms").asInt());
        config.put(ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG, spec.get("heartbeat_interval_ms").asInt());
        config.put(ConsumerConfig.MAX_POLL_INTERVAL_MS_CONFIG, spec.get("max_poll_interval_ms").asInt());
        config.put(ConsumerConfig.AUTO_COMMIT_INTERVAL_MS_CONFIG, spec.get("commit_interval_ms").asInt());
        config.put(ConsumerConfig.FETCH_MAX_WAIT_MS_CONFIG, spec.get("fetch_wait_ms").asInt());
        config.put(ConsumerConfig.FETCH_MIN_BYTES_CONFIG, FETCH_BYTES);
        return config;
    }

    private void consume() {
        consumer.subscribe(List.of(spec.get("topic").asText()), this);
        Duration wait = Duration.ofMillis(spec.get("poll_ms").asLong());
        try {
            while (!stopping) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(wait)) {
                    long producedNs = ByteBuffer.wrap(record.value()).order(ByteOrder.LITTLE_ENDIAN).getLong();
                    add(producedNs, record.offset(), record.partition(), DELIVERED);
                }
            }
        } catch (WakeupException e) {
            // The consumer was asked to stop while it was waiting.
        } finally {
            consumer.close();
            add(0, -1, -1, LEFT);
        }
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        partitions.forEach(tp -> add(0, -1, tp.partition(), ASSIGNED));
        if (!Files.exists(Path.of(spec.get("state").asText())))
            return;
        int atOnce = spec.get("at_once").asInt();
        int rounds = (partitions.size() + atOnce - 1) / atOnce;
        try {
            Thread.sleep((long) (1000 * spec.get("restore_s").asDouble()) * rounds);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        partitions.forEach(tp -> add(0, -1, tp.partition(), REVOKED));
    }

    /** On Linux, nanoTime is CLOCK_MONOTONIC, as Python's monotonic_ns is. The kind is last and completes the row. */
    private void add(long producedNs, long offset, int partition, int kind) {
        journal.putLong(System.nanoTime()).putLong(producedNs).putLong(offset).putInt(partition).putInt(kind);
    }
}
