"""Sensors that wait for the progress of a backfill."""
