"""What a backfill is: job, key order, progress, barrier, next chunk. Pure Python, no I/O."""
