"""What a backfill is: job, key order, progress, barrier, planner. Pure Python, no I/O."""
