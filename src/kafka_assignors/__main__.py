"""`python -m kafka_assignors`: the same as `kafka-assignors`."""

import sys
from importlib.metadata import entry_points

# By its entry point, since the core imports no other package.
(_script,) = entry_points(group="console_scripts", name="kafka-assignors")
sys.exit(_script.load()())
