"""Triggers: what the sensors wait for, without a worker slot."""
