"""The pages about backfills in Airflow's UI, and the API behind them."""
