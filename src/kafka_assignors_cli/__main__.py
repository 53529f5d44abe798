"""`python -m kafka_assignors_cli`: the same as `kafka-assignors`."""

import sys

from kafka_assignors_cli import main

sys.exit(main())
