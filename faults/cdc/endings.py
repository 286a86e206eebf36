"""How a case ends: with something that is done to a whole job, its table or its slot."""

from __future__ import annotations

import random
from collections import Counter

from airflow_backfill_provider.core.errors import (
    BackfillError,
    ChangeFeedGapError,
    ConcurrentUpdateError,
    UpstreamReplacedError,
    UpstreamSchemaChangedError,
)
from airflow_backfill_provider.core.status.verification import Verification
from airflow_backfill_provider.jobs import mutations, strategy_tables
from airflow_backfill_provider.jobs.verification.verifier import compare_now
from faults.campaign import WrongError
from faults.cdc.case_database import CaseDatabase
from faults.cdc.drawing import DrawnTable
from faults.cdc.epochs import Epochs
from faults.cdc.jobs import DrawnLakehouse, slot_name
from faults.cdc.writer import WriterProcess


class Endings:
    """
    Ends a case.

    :param epochs: runs epochs of the jobs.
    :param done: counts what happened.
    """

    def __init__(
        self, table: DrawnTable, database: CaseDatabase, writer: WriterProcess, epochs: Epochs, done: Counter[str]
    ) -> None:
        self.table = table
        self.database = database
        self.writer = writer
        self.epochs = epochs
        self.jobs = epochs.jobs
        self.done = done

    def play(self, chance: random.Random) -> None:
        """Play an ending that is drawn."""
        ending = chance.choice(
            [self._rename, self._rewrite, self._drop_slot, self._recreate, self._verify, self._cancel, self._rebuild]
        )
        self.done[ending.__name__] += 1
        ending()

    def _rename(self) -> None:
        """Rename a used column: refused by its name, and no harm once it has its name again."""
        job = self.jobs[0]
        column = self.table.payload_name(job.drawn.columns[0])
        with self.database.connect() as connection:
            connection.execute(f"ALTER TABLE orders RENAME {column} TO other")
            self._require_refused(job, UpstreamSchemaChangedError, f"{self.table.named}{job.drawn.columns[0]}")
            connection.execute(f"ALTER TABLE orders RENAME other TO {column}")
        self.writer.do("write")
        self.epochs.run(job)
        self.epochs.require_right()

    def _rewrite(self) -> None:
        """Write a used column anew, of which the log says nothing: refused, and right again after a rebuild."""
        job = self.jobs[0]
        number = job.drawn.columns[0]
        name, column = f"{self.table.named}{number}", self.table.payload_name(number)
        # An empty table has no values that could be lost.
        self.writer.do("fill")
        with self.database.connect() as connection:
            declared = connection.execute(
                "SELECT format_type(atttypid, atttypmod) FROM pg_attribute "
                "WHERE attrelid = 'orders'::regclass AND attname = %s",
                [name],
            ).fetchall()[0][0]
            connection.execute(f"ALTER TABLE orders ALTER {column} TYPE {declared} USING coalesce({column}, {column})")
        self._require_refused(job, UpstreamSchemaChangedError, f"column {name} was written anew")
        self._rebuild()

    def _drop_slot(self) -> None:
        """Drop the slot: refused, and right again after a rebuild."""
        with self.database.connect() as connection:
            connection.execute("SELECT pg_drop_replication_slot(%s)", [slot_name(self.table, self.database)])
        self.writer.do("write")
        for job in self.jobs:
            self._require_refused(job, ChangeFeedGapError, "rebuild")
        self._rebuild()

    def _recreate(self) -> None:
        """Drop the table and create it again: refused, and right again after a rebuild."""
        with self.database.connect() as connection:
            connection.execute("DROP TABLE orders")
            for statement in self.table.statements()[1:]:
                connection.execute(statement)
            connection.execute("TRUNCATE audit")
            for event, each in (("INSERT OR UPDATE OR DELETE", "ROW"), ("TRUNCATE", "STATEMENT")):
                connection.execute(
                    f"CREATE TRIGGER audit_{each} AFTER {event} ON orders FOR EACH {each} EXECUTE FUNCTION audit()"
                )
            connection.execute("INSERT INTO audit (kind) VALUES ('T')")
        self.writer.do("fill")
        for job in self.jobs:
            self._require_refused(job, UpstreamReplacedError, "rebuild")
        self._rebuild()

    def _verify(self) -> None:
        """Compare with the package's own verification, while the writer writes, unless it truncates every second."""
        self.writer.do("pause" if self.table.truncates else "write")
        for job in self.jobs:
            outcome = self._compared(job)
            if not outcome.equal:
                raise WrongError(f"verification: {outcome}")

    def _compared(self, job: DrawnLakehouse) -> Verification:
        """Compare; after a TRUNCATE, which takes the rows of older offsets, run an epoch before, as the error says."""
        try:
            return compare_now(job.backfill, job.engine)
        except ConcurrentUpdateError:
            self.epochs.run(job)
            return compare_now(job.backfill, job.engine)

    def _cancel(self) -> None:
        """Cancel a job: the other one, and a rebuild, are unharmed."""
        job = self.jobs[0]
        mutations.cancel_job(store=job.backfill.store, requested_by="tester")
        strategy_tables.clean_up_after_cancelling(job.backfill.store)
        with self.database.connect() as connection:
            slots = connection.execute(
                "SELECT FROM pg_replication_slots WHERE slot_name = %s", [slot_name(self.table, self.database)]
            ).fetchall()
        if len(slots) != len(self.jobs) - 1:
            raise WrongError(f"there are {len(slots)} slots after cancelling one of {len(self.jobs)} jobs")
        self.writer.do("write")
        for other in self.jobs[1:]:
            self.epochs.run(other)
        self._rebuild()

    def _rebuild(self) -> None:
        """Rebuild the jobs while the writer writes."""
        self.writer.do("calm")
        for job in self.jobs:
            job.rebuild(**job.fields)
        self.writer.do("write")
        self.epochs.run_some(2 * len(self.jobs))
        self.epochs.require_right()

    def _require_refused(self, job: DrawnLakehouse, error: type[BackfillError], message: str) -> None:
        try:
            job.epoch()
        except error as refused:
            if message not in str(refused):
                raise WrongError(f"the refusal does not say {message}: {refused}") from refused
            self.done[error.__name__] += 1
            return
        raise WrongError(f"not refused by {error.__name__}")
