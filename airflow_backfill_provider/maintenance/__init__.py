"""Maintenance of the files of views: what to compact, and when."""
