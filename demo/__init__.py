"""A backfill to watch: a table that never stops changing, Airflow, Spark, and a check that no row is lost."""
