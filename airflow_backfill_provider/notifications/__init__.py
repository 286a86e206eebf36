"""Notifiers: what is told of a job, and to whom."""
