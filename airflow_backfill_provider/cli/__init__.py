"""The command line. It does what the operators do, without Airflow."""
