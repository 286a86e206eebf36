"""The demo's upstream as a table in a PostgreSQL server of the demo's own."""
