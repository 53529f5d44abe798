"""`python -m kafka_assignors`: the same as `kafka-assignors`."""

import runpy

if __name__ == "__main__":
    # By name, since the core imports no other package. Without the extra `cli`, the package says what to
    # install.
    runpy.run_module("kafka_assignors_cli", run_name="__main__", alter_sys=True)
