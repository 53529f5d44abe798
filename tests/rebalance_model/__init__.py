"""A model checker for `kafka_assignors.rebalance`: it explores every interleaving of the real state machine
and the real leader with a model of the group coordinator."""
