"""Any group, for tests of properties: a group of `exact_groups`, with difficult claims."""

from __future__ import annotations

import random

from hypothesis import strategies as st

from kafka_assignors.group import Group
from tests.exact_groups import random_group

seeds = st.integers(0, 2**32)
groups: st.SearchStrategy[Group] = seeds.map(lambda seed: random_group(random.Random(seed)))
