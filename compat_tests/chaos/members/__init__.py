"""The member programs, one for each client. They do the same, and report it in the same words."""
