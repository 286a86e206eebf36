"""Notifiers that report what happens to a job."""
