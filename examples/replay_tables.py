# %% [markdown]
# # The tables of a replay, in a notebook
#
# `kafka-assignors replay history/ --strategy range,cooperative-sticky --tables tables/` writes the tables.
# Run this file as a program (`python examples/replay_tables.py tables`) or cell by cell: Jupyter (with
# jupytext), VS Code, PyCharm and Spyder recognise the marks. It needs only pyarrow; `to_pandas()` makes a
# data frame of any table.

# %%
import sys
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq

TABLES = Path(sys.argv[1] if len(sys.argv) > 1 else "tables")

# %% [markdown]
# The moves and pauses of each strategy, if it had been in use from the start. `recorded` is production.

# %%
metrics = pq.read_table(TABLES / "metrics", filters=pc.field("mode") == "steady-state")
totals = metrics.group_by("strategy").aggregate(
    [("moved", "sum"), ("least_moved", "sum"), ("paused_s", "sum"), ("failed", "sum")]
)
for row in totals.sort_by("paused_s_sum").to_pylist():
    print(f"{row['strategy']:20} {row['moved_sum']:8,} moved {row['paused_s_sum']:12,.1f} s paused (model)")

# %% [markdown]
# The group with the longest pauses in production, and its worst rebalances.

# %%
recorded = metrics.filter(pc.field("strategy") == "recorded")
worst = recorded.group_by("group").aggregate([("paused_s", "sum")]).sort_by([("paused_s_sum", "descending")])
group = worst["group"][0].as_py()
replayed = pq.read_table(
    TABLES / "replayed",
    filters=(pc.field("group") == group)
    & (pc.field("strategy") == "recorded")
    & (pc.field("mode") == "steady-state")
    & pc.field("problem").is_null(),
).sort_by([("paused_s", "descending")])
print(f"\n{group}")
for row in replayed.slice(0, 5).to_pylist():
    print(f"  generation {row['generation']} at offset {row['offset']}: {row['moved']} moved")

# %% [markdown]
# The causes of the worst rebalance, and its assignment. The generation is not a key, because a restarted
# static member writes it again; the offset is a key within the group.

# %%
offset = replayed["offset"][0].as_py()
of_generation = (pc.field("group") == group) & (pc.field("offset") == offset)
for row in pq.read_table(TABLES / "causes", filters=of_generation).to_pylist():
    print(f"  because of {', '.join(row['causes'])}")
for row in pq.read_table(TABLES / "assignments", filters=of_generation).sort_by("member_id").to_pylist():
    print(f"  {row['member_id']}: {len(row['partitions'])} partitions of {row['topic']}")

# %% [markdown]
# The members that made groups rebalance most often, without deployments.

# %%
faults = pq.read_table(TABLES / "faults", filters=pc.field("kind") != "deployment")
for row in faults.sort_by([("generations", "descending")]).slice(0, 5).to_pylist():
    print(f"{row['group']}: {row['kind']}, {row['client_id']} at {row['client_host']}: {row['generations']}")
