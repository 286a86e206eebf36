"""What the log of a Delta table says."""
