"""The pages of backfills in Airflow's UI, and their API."""
