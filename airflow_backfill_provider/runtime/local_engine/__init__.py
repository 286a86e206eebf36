"""
The warm engine of one user on one machine: a Spark Connect server that ``airflow-backfill engine`` looks after.

What is known of it lies in one folder that only its user may read. Imports no Spark.
"""
