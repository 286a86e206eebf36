"""Sensors: wait for a backfill to get somewhere."""
