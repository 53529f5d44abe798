"""The watch: follows the groups of a running cluster by their records, and shows what they do.

    fleet     the groups: their state and counts, which are followed, which are forgotten
    metric_table  the metrics; `exporter` serves them to Prometheus
    watcher   reads the records with librdkafka, feeds the fleet, and keeps the counts in a file

It needs no Spark: `watcher` needs confluent-kafka, `exporter` prometheus_client, the rest Python alone.
"""
