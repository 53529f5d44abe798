"""Archive, replay and watch of the groups of a cluster, from their records in `__consumer_offsets`."""
