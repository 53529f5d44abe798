"""`python -m kafka_assignors.cli`: the same as `kafka-assignors`."""

import sys

from kafka_assignors.cli import main

sys.exit(main())
