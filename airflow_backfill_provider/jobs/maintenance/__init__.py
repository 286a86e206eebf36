"""Maintenance of the files of a job's tables: what to compact, and when."""
