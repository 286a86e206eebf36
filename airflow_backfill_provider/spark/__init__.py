"""Spark's side of tables and keys, through its SQL and DataFrame API only; what executes an epoch is made of it."""
