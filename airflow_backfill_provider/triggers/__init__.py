"""Triggers that wait for sensors and tasks without a worker slot."""
