"""Operators: the steps of the epoch protocol as Airflow tasks."""
