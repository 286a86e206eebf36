"""One epoch: its barrier, its stages, its record, and the interface to what runs it."""
