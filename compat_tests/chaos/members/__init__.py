"""The member programs, one for each client. They behave the same, and report the same events."""
