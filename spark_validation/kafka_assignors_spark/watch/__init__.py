"""The watch: follows the groups of a running cluster by their records, and says what they do as it happens.

    group     one group: the folds of the replay, and a few sums
    fleet     all groups: which are followed, which are forgotten
    metrics   what is shown, as a table; `exporter` serves it to Prometheus
    reader    the records, read with librdkafka; `topics` the partitions of the topics
    state     the file in which the counts go on
    watcher   runs all of it

It needs no Spark: `watcher` needs confluent-kafka, `exporter` prometheus_client, the rest Python alone.
"""
