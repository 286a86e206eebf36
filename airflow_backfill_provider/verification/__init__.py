"""Comparing a view with its query step by step, and repairing what differs."""
