"""Consumer groups of a running cluster: what they are now, whether their members fit together, what they do.

    live_group     a group as the cluster shows it, and the `Group` that a strategy would see
    cluster        requests to a cluster: list, describe and delete groups
    lint           rules on a change of strategy and on the settings of members
    watch          follows the groups by their records

The commands `groups`, `lint` and `watch` are in the modules with these names. What reads a cluster needs
confluent-kafka.
"""
