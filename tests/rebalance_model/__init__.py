"""A model checker for `kafka_assignors.rebalance`: the real machine and the real leader beside a model of the
group coordinator, every interleaving of them explored."""
