"""
The change log: a Delta table into which a database's changes are landed.

A database keeps its log only for a while, and returns each change once. A change log keeps changes, so that epochs can
read any window of them again, until they are cleaned up. It is landed once, however many jobs read it.
"""
