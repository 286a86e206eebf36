"""
The change log: an append-only Delta table into which a database's changes are landed.

A database keeps its log only for a while, and returns each change once. A change log keeps changes, so that epochs can
read any window of them again. It is landed once, however many jobs read it.
"""
