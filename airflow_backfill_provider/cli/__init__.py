"""The command line: what the operators do, without Airflow."""
