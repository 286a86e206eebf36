"""A backfill from PostgreSQL, against a plain copy and against an incremental snapshot as Debezium takes it."""
