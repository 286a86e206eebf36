"""The demo's upstream as a Delta table."""
