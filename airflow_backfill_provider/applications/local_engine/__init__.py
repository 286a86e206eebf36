"""
The warm engine of one user on one machine: a Spark Connect server that ``airflow-backfill engine`` starts and stops.

Its files lie in one folder that only the user may read. These modules do not import Spark.
"""
