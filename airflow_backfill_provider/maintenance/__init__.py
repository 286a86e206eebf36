"""Keeping the files of views good: what to compact, and when."""
