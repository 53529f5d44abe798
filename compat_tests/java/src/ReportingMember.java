import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A Java consumer with the same settings and reports as the other member programs.
 *
 * <p>The one argument is the specification of {@code compat_tests/support/member_reports.py}, in JSON; orders come on
 * standard input. Without assignors the broker assigns (KIP-848). The consumer commits periodically and in
 * {@code onPartitionsRevoked}, and leaves on SIGTERM or at the end of its standard input. Reports have the time of the
 * machine's monotonic clock in seconds: {@link System#nanoTime()} is CLOCK_MONOTONIC on Linux, as
 * {@code time.monotonic()} in Python is.
 */
public final class ReportingMember implements ConsumerRebalanceListener {
    private static final Duration POLL = Duration.ofMillis(100);
    private static final Duration COMMIT_TIMEOUT = Duration.ofSeconds(5);
    private static final Duration CLOSE_TIMEOUT = Duration.ofSeconds(10);
    private static final long COMMIT_EVERY_NANOS = Duration.ofMillis(300).toNanos();
    private static final Map<String, String> ASSIGNORS = Map.of(
        "range", "org.apache.kafka.clients.consumer.RangeAssignor",
        "roundrobin", "org.apache.kafka.clients.consumer.RoundRobinAssignor",
        "sticky", "org.apache.kafka.clients.consumer.StickyAssignor",
        "cooperative-sticky", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");

    private final ObjectMapper json = new ObjectMapper();
    private final Map<TopicPartition, Long> processed = new HashMap<>();
    private final Map<TopicPartition, Long> committed = new HashMap<>();
    private final AtomicReference<List<String>> newTopics = new AtomicReference<>();
    private final KafkaConsumer<byte[], byte[]> consumer;
    private volatile boolean busy;
    private volatile long pauseMillis;
    private volatile boolean stopping;

    private ReportingMember(Properties config) {
        consumer = new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    public static void main(String[] args) throws IOException {
        JsonNode spec = new ObjectMapper().readTree(args[0]);
        ReportingMember member = new ReportingMember(consumerConfig(spec));
        Thread main = Thread.currentThread();
        Thread orders = new Thread(member::listen, "orders");
        orders.setDaemon(true);
        orders.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            member.stop();
            try {
                main.join(Duration.ofSeconds(25).toMillis());
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }));
        member.newTopics.set(strings(spec.get("topics")));
        member.consume();
    }

    private static Properties consumerConfig(JsonNode spec) {
        Properties config = new Properties();
        config.put(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, spec.get("bootstrap").asText());
        config.put(ConsumerConfig.GROUP_ID_CONFIG, spec.get("group").asText());
        config.put(ConsumerConfig.CLIENT_ID_CONFIG, spec.get("name").asText());
        config.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        config.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, "false");
        config.put(ConsumerConfig.MAX_POLL_RECORDS_CONFIG, "100");
        config.put(ConsumerConfig.METADATA_MAX_AGE_CONFIG, spec.get("metadata_max_age_ms").asText());
        if (spec.get("assignors").isEmpty()) {
            config.put(ConsumerConfig.GROUP_PROTOCOL_CONFIG, "consumer"); // It refuses the settings of the other one.
        } else {
            config.put(
                ConsumerConfig.PARTITION_ASSIGNMENT_STRATEGY_CONFIG,
                strings(spec.get("assignors")).stream().map(ASSIGNORS::get).toList());
            config.put(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG, spec.get("session_timeout_ms").asText());
            config.put(ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG, spec.get("heartbeat_interval_ms").asText());
        }
        putIfSet(config, ConsumerConfig.GROUP_INSTANCE_ID_CONFIG, spec.get("instance_id"));
        putIfSet(config, ConsumerConfig.CLIENT_RACK_CONFIG, spec.get("rack"));
        putIfSet(config, ConsumerConfig.MAX_POLL_INTERVAL_MS_CONFIG, spec.get("max_poll_interval_ms"));
        return config;
    }

    private static void putIfSet(Properties config, String name, JsonNode value) {
        if (value != null && !value.isNull())
            config.put(name, value.asText());
    }

    private static List<String> strings(JsonNode array) {
        List<String> found = new ArrayList<>();
        array.forEach(one -> found.add(one.asText()));
        return found;
    }

    private void listen() {
        try (BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                JsonNode order = json.readTree(line);
                if (order.has("topics"))
                    newTopics.set(strings(order.get("topics")));
                if (order.has("busy"))
                    busy = order.get("busy").asBoolean();
                if (order.has("pause_s"))
                    pauseMillis = (long) (order.get("pause_s").asDouble() * 1000);
            }
        } catch (IOException e) {
            // A broken standard input counts as its end.
        }
        stop();
    }

    private void stop() {
        stopping = true;
        consumer.wakeup();
    }

    private void consume() {
        long commitAt = System.nanoTime() + COMMIT_EVERY_NANOS;
        try {
            while (!stopping) {
                List<String> topics = newTopics.getAndSet(null);
                if (topics != null)
                    consumer.subscribe(topics, this);
                if (busy) {
                    sleep(50);
                    continue;
                }
                process(poll());
                if (System.nanoTime() > commitAt) {
                    commit(processed.keySet());
                    commitAt = System.nanoTime() + COMMIT_EVERY_NANOS;
                }
            }
            commit(processed.keySet());
        } catch (RuntimeException e) {
            report("failed", Map.of("error", e.toString()));
            throw e;
        } finally {
            report("stopped", Map.of());
            consumer.close(CloseOptions.timeout(CLOSE_TIMEOUT));
            report("closed", Map.of());
        }
    }

    private ConsumerRecords<byte[], byte[]> poll() {
        try {
            return consumer.poll(POLL);
        } catch (WakeupException e) {
            return ConsumerRecords.empty(); // The consumer was asked to stop.
        }
    }

    private void process(ConsumerRecords<byte[], byte[]> records) {
        for (TopicPartition tp : records.partitions()) {
            List<Long> offsets = new ArrayList<>();
            for (ConsumerRecord<byte[], byte[]> record : records.records(tp))
                offsets.add(record.offset());
            report("consumed", Map.of("topic", tp.topic(), "partition", tp.partition(), "offsets", offsets));
            processed.put(tp, offsets.get(offsets.size() - 1) + 1);
        }
    }

    private void commit(Collection<TopicPartition> partitions) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (TopicPartition tp : partitions) {
            Long offset = processed.get(tp);
            if (offset != null && !offset.equals(committed.get(tp)))
                offsets.put(tp, new OffsetAndMetadata(offset));
        }
        if (offsets.isEmpty())
            return;
        try {
            try {
                consumer.commitSync(offsets, COMMIT_TIMEOUT);
            } catch (WakeupException e) {
                // The consumer forgets a wake-up after it has thrown; `stopping` remembers it.
                consumer.commitSync(offsets, COMMIT_TIMEOUT);
            }
        } catch (KafkaException e) {
            report("commit_failed", Map.of("partitions", byTopic(offsets.keySet()), "error", e.toString()));
            return;
        }
        List<List<Object>> told = new ArrayList<>();
        offsets.forEach((tp, offset) -> {
            committed.put(tp, offset.offset());
            told.add(List.of(tp.topic(), tp.partition(), offset.offset()));
        });
        report("committed", Map.of("offsets", told));
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        report("added", Map.of("partitions", byTopic(partitions)));
        report("assigned", Map.of(
            "member_id", consumer.groupMetadata().memberId(),
            "generation", consumer.groupMetadata().generationId(),
            "partitions", byTopic(consumer.assignment())));
        sleep(pauseMillis);
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        sleep(pauseMillis);
        commit(partitions);
        forget(partitions);
        report("revoked", Map.of("partitions", byTopic(partitions)));
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        forget(partitions);
        report("lost", Map.of("partitions", byTopic(partitions)));
        sleep(pauseMillis);
    }

    private void forget(Collection<TopicPartition> partitions) {
        Set<TopicPartition> gone = new HashSet<>(partitions);
        processed.keySet().removeAll(gone);
        committed.keySet().removeAll(gone);
    }

    private static void sleep(long millis) {
        try {
            Thread.sleep(millis);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private static Map<String, TreeSet<Integer>> byTopic(Collection<TopicPartition> partitions) {
        Map<String, TreeSet<Integer>> numbers = new TreeMap<>();
        for (TopicPartition tp : partitions)
            numbers.computeIfAbsent(tp.topic(), t -> new TreeSet<>()).add(tp.partition());
        return numbers;
    }

    private synchronized void report(String event, Map<String, ?> fields) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("event", event);
        line.put("at", System.nanoTime() / 1e9);
        line.putAll(fields);
        try {
            System.out.println(json.writeValueAsString(line));
            System.out.flush();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
