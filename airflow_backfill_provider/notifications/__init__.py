"""Notifiers that report a job's events."""
