"""The programs that `compat_tests.soak` measures; each runs one consumer."""
