"""
The epoch protocol: inject, execute, commit, finish.

One barrier is one epoch::

    inject   (no JVM)  read settings, state and barrier log; adopt the pinned uncommitted barrier, or pin the next one:
                       window of offsets, new positions, what was read before, rate limit, mutations
    execute  (Spark)   changes of the window for rows that were read before, as one merge; then the chunk, as
                       of the window's end, as one append, or as one per part
    commit   (no JVM)  the per-vnode state, then the barrier log's record of the epoch
    finish   (no JVM)  once every vnode is Completed, exactly once

An epoch is run by one Spark application, or by several that share it: one applies the changes, then each reads its part
of the chunk and reports, and the last to report commits. Both ways write the same, so either can continue what the
other left. One application may also run several epochs, one after another; each is injected after the one before is
committed.

Any step is safe to run again, twice at once, or long after, because:

* an epoch is a function of the committed state and of its pinned barrier (I2);
* each write to the view has a transaction id (job, incarnation, part) with the epoch as version, so Delta skips what
  was written before, and a skipped write counts only if the view's own log shows it (I5);
* each write to a control table is a compare-and-swap that first checks whether it was done already (I3, I5);
* everything that can be refused is checked before the first write (I6).

Ports the barrier loop of ``BackfillExecutor::execute_inner``, with one difference: the chunk is read at the epoch's
end and changes are filtered by the position before the epoch, which makes the chunk a pure append. See
`docs/concepts/order-of-operations.md`.
"""

from airflow_backfill_provider.core.clock import Clock, utc_now
from airflow_backfill_provider.core.epoch.engine import Engine, EpochWrites, PartWrites
from airflow_backfill_provider.jobs.strategy_tables import clean_up_after_cancelling
from airflow_backfill_provider.protocol.finish import announce_finish, completing_commit, finish_job
from airflow_backfill_provider.protocol.inject import Injection, inject_barrier
from airflow_backfill_provider.protocol.loop import EpochLoop, run_epochs, run_next_epoch, run_with
from airflow_backfill_provider.protocol.run import apply_changes, read_chunk_part, run_epoch, skip_changes

__all__ = [
    "Clock",
    "Engine",
    "EpochLoop",
    "EpochWrites",
    "Injection",
    "PartWrites",
    "announce_finish",
    "apply_changes",
    "clean_up_after_cancelling",
    "completing_commit",
    "finish_job",
    "inject_barrier",
    "read_chunk_part",
    "run_epoch",
    "run_epochs",
    "run_next_epoch",
    "run_with",
    "skip_changes",
    "utc_now",
]
