"""The watch: follows the groups of a running cluster by their records, and says what they do as it happens.

    fleet     the groups: what is known of each, which are followed, which are forgotten
    metrics   what is shown, as a table; `exporter` serves it to Prometheus
    watcher   reads the records with librdkafka, runs all of it, and keeps the counts in a file

It needs no Spark: `watcher` needs confluent-kafka, `exporter` prometheus_client, the rest Python alone.
"""


class WatchError(Exception):
    """A cluster that cannot be watched as asked: one line that says what is wrong, where, and what to do."""
