"""The command line, which does the same as the operators, without Airflow."""
