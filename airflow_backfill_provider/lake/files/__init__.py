"""Data files of a Delta table: keys, counts, rows."""
