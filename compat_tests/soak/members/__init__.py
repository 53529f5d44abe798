"""The programs that `compat_tests.soak` measures, one consumer each."""
