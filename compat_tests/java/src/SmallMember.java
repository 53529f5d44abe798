import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.Arrays;
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
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A member of a group: consumes, commits after every batch, and prints its events on standard output.
 *
 * <p>Arguments are {@code key=value}. Needed: {@code bootstrap}, {@code group}, {@code topics} (comma-separated).
 * Optional: {@code assignors} (comma-separated: range, roundrobin, sticky, cooperative-sticky or class names; Java's
 * default if absent), {@code protocol} (classic or consumer, KIP-848), {@code instance}, {@code rack},
 * {@code seconds} (how long to stay; forever if absent). A key with a dot is passed to the consumer unchanged,
 * such as {@code session.timeout.ms=6000}.
 *
 * <p>It leaves the group when its time is up, on SIGTERM, or when its standard input is closed, so that it never
 * outlives the test that started it.
 *
 * <p>Each line is an object with {@code event} and {@code at_ms} (milliseconds since the epoch):
 * <ul>
 *   <li>{@code assigned}, {@code revoked}, {@code lost}: the {@code partitions} of the call, the {@code owned} ones
 *       after it, {@code member} id and {@code generation}
 *   <li>{@code records}: {@code [first offset, last offset, count]} by topic and partition
 *   <li>{@code committed}: {@code offsets} by topic and partition; {@code commit_failed}: the {@code error}
 *   <li>{@code metrics}: the {@code values} of the coordinator's metrics by name, after a line on standard input
 *   <li>{@code left}: the last line of a member that left in an orderly way
 * </ul>
 */
public final class SmallMember implements ConsumerRebalanceListener {
    private static final Duration CLOSE_TIMEOUT = Duration.ofSeconds(5);
    private static final Map<String, String> ASSIGNORS = Map.of(
        "range", "org.apache.kafka.clients.consumer.RangeAssignor",
        "roundrobin", "org.apache.kafka.clients.consumer.RoundRobinAssignor",
        "sticky", "org.apache.kafka.clients.consumer.StickyAssignor",
        "cooperative-sticky", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");

    private final ObjectMapper json = new ObjectMapper();
    private final Map<TopicPartition, OffsetAndMetadata> uncommitted = new HashMap<>();
    private final KafkaConsumer<byte[], byte[]> consumer;
    private volatile boolean stopping;

    private SmallMember(Properties config) {
        consumer = new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    public static void main(String[] args) {
        Map<String, String> options = new HashMap<>();
        for (String arg : args) {
            String[] pair = arg.split("=", 2);
            if (pair.length != 2)
                throw new IllegalArgumentException("not key=value: " + arg);
            options.put(pair[0], pair[1]);
        }
        String topics = required(options, "topics");
        long seconds = Long.parseLong(options.getOrDefault("seconds", String.valueOf(Integer.MAX_VALUE)));
        options.remove("seconds");

        SmallMember member = new SmallMember(consumerConfig(options));
        Thread main = Thread.currentThread();
        Thread input = new Thread(member::stopAtEndOfInput, "stdin");
        input.setDaemon(true);
        input.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            member.stop();
            try {
                main.join(Duration.ofSeconds(20).toMillis());
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }));
        member.consume(Arrays.asList(topics.split(",")), seconds);
    }

    private static String required(Map<String, String> options, String key) {
        String value = options.remove(key);
        if (value == null)
            throw new IllegalArgumentException("missing argument " + key + "=...");
        return value;
    }

    private static Properties consumerConfig(Map<String, String> options) {
        Properties config = new Properties();
        config.put(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, required(options, "bootstrap"));
        config.put(ConsumerConfig.GROUP_ID_CONFIG, required(options, "group"));
        config.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        config.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, "false");
        options.forEach((key, value) -> {
            switch (key) {
                case "assignors" -> config.put(
                    ConsumerConfig.PARTITION_ASSIGNMENT_STRATEGY_CONFIG,
                    Arrays.stream(value.split(",")).map(n -> ASSIGNORS.getOrDefault(n, n)).collect(Collectors.toList()));
                case "protocol" -> config.put(ConsumerConfig.GROUP_PROTOCOL_CONFIG, value);
                case "instance" -> config.put(ConsumerConfig.GROUP_INSTANCE_ID_CONFIG, value);
                case "rack" -> config.put(ConsumerConfig.CLIENT_RACK_CONFIG, value);
                default -> {
                    if (!key.contains("."))
                        throw new IllegalArgumentException("unknown argument: " + key);
                    config.put(key, value);
                }
            }
        });
        return config;
    }

    private void stopAtEndOfInput() {
        try {
            for (int read = System.in.read(); read >= 0; read = System.in.read()) {
                if (read == '\n')
                    tellMetrics();
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

    private void consume(List<String> topics, long seconds) {
        long until = System.nanoTime() + Duration.ofSeconds(seconds).toNanos();
        consumer.subscribe(topics, this);
        try {
            while (!stopping && System.nanoTime() < until) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(100));
                if (!records.isEmpty()) {
                    tellRecords(records);
                    commit();
                }
            }
        } catch (WakeupException e) {
            // The consumer was asked to stop while it was waiting.
        } finally {
            // A static member that leaves during a join would wait for the join to end, up to the default of 30 seconds.
            consumer.close(CloseOptions.timeout(CLOSE_TIMEOUT));
            tell("left", Map.of());
        }
    }

    private void tellMetrics() {
        Map<String, Object> values = new TreeMap<>();
        consumer.metrics().forEach((name, metric) -> {
            if (name.group().equals("consumer-coordinator-metrics"))
                values.put(name.name(), metric.metricValue());
        });
        tell("metrics", Map.of("values", values));
    }

    private void tellRecords(ConsumerRecords<byte[], byte[]> records) {
        Map<String, Map<Integer, List<Long>>> spans = new TreeMap<>();
        for (TopicPartition tp : records.partitions()) {
            List<ConsumerRecord<byte[], byte[]>> batch = records.records(tp);
            long last = batch.get(batch.size() - 1).offset();
            spans.computeIfAbsent(tp.topic(), t -> new TreeMap<>())
                .put(tp.partition(), List.of(batch.get(0).offset(), last, (long) batch.size()));
            uncommitted.put(tp, new OffsetAndMetadata(last + 1));
        }
        tell("records", Map.of("records", spans));
    }

    private void commit() {
        if (uncommitted.isEmpty())
            return;
        Map<String, Map<Integer, Long>> offsets = new TreeMap<>();
        uncommitted.forEach((tp, offset) ->
            offsets.computeIfAbsent(tp.topic(), t -> new TreeMap<>()).put(tp.partition(), offset.offset()));
        try {
            try {
                consumer.commitSync(uncommitted);
            } catch (WakeupException e) {
                // The consumer forgets a wake-up after it has thrown; `stopping` remembers it.
                consumer.commitSync(uncommitted);
            }
        } catch (RebalanceInProgressException e) {
            // During a cooperative rebalance: partitions that are still owned afterwards are committed with the next
            // batch, the others when they are revoked.
            tell("commit_failed", Map.of("error", e.toString()));
            return;
        } catch (CommitFailedException e) {
            tell("commit_failed", Map.of("error", e.toString()));
            uncommitted.clear();
            return;
        }
        uncommitted.clear();
        tell("committed", Map.of("offsets", offsets));
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        tellPartitions("assigned", partitions, consumer.assignment());
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        commit();
        Set<TopicPartition> kept = new HashSet<>(consumer.assignment());
        kept.removeAll(partitions);
        tellPartitions("revoked", partitions, kept);
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        uncommitted.keySet().removeAll(partitions);
        tellPartitions("lost", partitions, List.of());
    }

    private void tellPartitions(String event, Collection<TopicPartition> partitions, Collection<TopicPartition> owned) {
        tell(event, Map.of(
            "partitions", byTopic(partitions),
            "owned", byTopic(owned),
            "member", consumer.groupMetadata().memberId(),
            "generation", consumer.groupMetadata().generationId()));
    }

    private static Map<String, TreeSet<Integer>> byTopic(Collection<TopicPartition> partitions) {
        Map<String, TreeSet<Integer>> numbers = new TreeMap<>();
        for (TopicPartition tp : partitions)
            numbers.computeIfAbsent(tp.topic(), t -> new TreeSet<>()).add(tp.partition());
        return numbers;
    }

    private synchronized void tell(String event, Map<String, ?> details) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("event", event);
        line.put("at_ms", System.currentTimeMillis());
        line.putAll(details);
        try {
            System.out.println(json.writeValueAsString(line));
            System.out.flush();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
