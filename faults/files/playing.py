"""Plays a case: files come and go while epochs of one or two jobs are attempted, and the views are compared."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import random
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from airflow_backfill_provider.core.errors import BackfillError, UnsupportedValueError, UpstreamError
from airflow_backfill_provider.jobs import mutations
from airflow_backfill_provider.strategies.source.location import dead_letters_of
from faults.attempts import HarmedAttempts
from faults.campaign import Outcome, WrongError
from faults.files.drawing import COLUMNS, EPOCH, SCHEMA, DrawnRow, some_rows, write
from tests.connect_server import address_of
from tests.integration.engine.attempts import is_killed
from tests.integration.engine.lakehouse import Lakehouse
from tests.integration.engine.test_crash_points import POINTS

_CHANGED = "changed after it was added"
"""What the refusal of a file says of which rows may have been read."""

KINDS = ("parquet", "json", "csv")
ROUNDS = 8
MOST_EPOCHS = 60

_numbers = itertools.count()


class FolderJob(Lakehouse):
    """
    A job over the folder of a case.

    :param lists: whether rows that do not fit become dead letters.
    """

    def __init__(self, spark: SparkSession, folder: Path, upstream: dict[str, Any], chance: random.Random) -> None:
        super().__init__(spark, folder)
        folder.mkdir()
        self.lists = upstream["unreadable_records"] == "dead_letter"
        self.fields: dict[str, Any] = {
            "name": f"files_{next(_numbers)}",
            "upstream": {"files": upstream},
            "query": f"SELECT {', '.join(COLUMNS)} FROM upstream",
            "vnode_count": 4,
            "rate_limit": chance.choice([5, 20, None]),
            "parallelism": chance.choice([1, 1, 2]),
        }

    def found(self) -> list[dict[str, Any]]:
        """Return the view's rows."""
        rows = self.view().selectExpr("id", "small", "price", "unix_micros(at) AS at", "day")
        return [row.asDict() for row in rows.collect()]

    def letters(self) -> list[int]:
        """Return the ids of the rows that became dead letters."""
        if not self.lists:
            return []
        rows = self.spark.read.format("delta").load(dead_letters_of(self.backfill.settings())).select("line").collect()
        return [int(json.loads(line)["id"] if line.startswith("{") else line.split(",")[0]) for (line,) in rows if line]


class Game:
    """
    A case.

    :param case: its number, which decides on the format.
    :param chance: decides on everything else.
    :param folder: a folder for the files and the views.
    """

    def __init__(self, case: int, chance: random.Random, spark: SparkSession, folder: Path) -> None:
        self.chance = chance
        self.kind = KINDS[case % len(KINDS)]
        self.files: dict[Path, list[DrawnRow]] = {}
        self.rows: dict[int, DrawnRow] = {}
        self.done: Counter[str] = Counter()
        self.checks = 0
        self.landing = folder / "landing"
        self.landing.mkdir()
        upstream = {"path": str(self.landing), "format": self.kind, "schema": SCHEMA}
        rules = chance.choice([["dead_letter"], ["fail"], ["dead_letter", "fail"], ["dead_letter", "dead_letter"]])
        self.jobs = [
            FolderJob(spark, folder / str(number), {**upstream, "unreadable_records": rule}, chance)
            for number, rule in enumerate(rules)
        ]
        self.harm = HarmedAttempts[FolderJob](chance, POINTS, address_of(spark), self.done)

    def play(self) -> Outcome:
        """Play the case."""
        self._add()
        for job in self.jobs:
            job.create(**job.fields)
        for _ in range(ROUNDS):
            self.chance.choice([self._add, self._add, self._move, self._correct, self._remove, self._narrow])()
            self._round()
        self._correct_all()
        for job in self.jobs:
            self._finish(job)
            self._compare(job, is_end=True)
        return Outcome(checks=self.checks, about=f"{self.kind}; {len(self.rows)} rows: {dict(self.done)}")

    # ---------------------------------------------------------------------------------------------------- files

    def _add(self) -> None:
        count = self.chance.choice([1, 8, 30])
        rows = some_rows(self.chance, len(self.rows), count, self.kind, self.chance.choice([0, 0.1, 0.4]))
        file = self.landing / self.chance.choice(["", "a", "a/b"]) / f"f{len(self.rows)}.{self.kind}"
        write(file, rows)
        self.files[file] = rows
        self.rows |= {row.id: row for row in rows}
        self.done["added"] += 1
        if self.chance.random() < 0.2:
            self._rewrite(file)
            self.done["corrected at once"] += 1

    def _move(self) -> None:
        """Move a file within the folder: what was read of it is not read again."""
        if self.files:
            file = self.chance.choice(sorted(self.files))
            target = self.landing / "moved" / file.name
            target.parent.mkdir(exist_ok=True)
            self.files[target] = self.files.pop(file)
            file.rename(target)
            self.done["moved"] += 1

    def _correct(self) -> None:
        """Correct a file of which no job has read a row."""
        untouched = [file for file in sorted(self.files) if self._is_untouched(file)]
        if untouched:
            self._rewrite(self.chance.choice(untouched))
            self.done["corrected"] += 1

    def _correct_all(self) -> None:
        for job in self.jobs:
            self._until_right(job)

    def _rewrite(self, file: Path) -> None:
        rows = [row.corrected() for row in self.files[file]]
        write(file, rows)
        self.files[file] = rows
        self.rows |= {row.id: row for row in rows}

    def _remove(self) -> None:
        """Remove a file that all jobs have read."""
        read = [file for file in sorted(self.files) if all(self._has_read(job, file) for job in self.jobs)]
        if read:
            file = self.chance.choice(read)
            file.unlink()
            del self.files[file]
            self.done["removed"] += 1

    def _narrow(self) -> None:
        """Put a Parquet file there whose column has more bits: refused with its name, and taken away."""
        if self.kind != "parquet":
            return
        file = self.landing / "narrow.parquet"
        write(file, some_rows(self.chance, 10**9, 3, self.kind, 0), is_narrow=True)
        try:
            for job in self.jobs:
                try:
                    job.epoch()
                except UpstreamError as error:
                    if "narrow.parquet: column small" not in str(error):
                        raise
                    continue
                raise WrongError("a column of 32 bits was read as one of 16")
        finally:
            file.unlink()
        self.done["narrow"] += 1

    def _seen(self, job: FolderJob) -> set[int]:
        return {*job.letters(), *(row["id"] for row in job.found())}

    def _is_untouched(self, file: Path) -> bool:
        """Return whether no job has a row of a file."""
        ids = {row.id for row in self.files[file]}
        return not any(ids & self._seen(job) for job in self.jobs)

    def _has_read(self, job: FolderJob, file: Path) -> bool:
        return {row.id for row in self.files[file]} <= self._seen(job)

    # --------------------------------------------------------------------------------------------------- epochs

    def _round(self) -> None:
        if len(self.jobs) > 1 and self.chance.random() < 0.3:
            self._at_once()
        else:
            job = self.chance.choice(self.jobs)
            harm = self.chance.choice([None, self.harm.die, self.harm.kill_client])
            if harm is not None:
                self._or_refused(job, partial(harm, job))
            self._or_refused(job, job.epoch)
        for job in self.jobs:
            self._compare(job)

    def _at_once(self) -> None:
        """Run an epoch of each job at the same time, as two clients of one Spark."""
        states = [job.backfill.job.state for job in self.jobs]
        with ThreadPoolExecutor(len(states)) as clients:
            ends = [clients.submit(is_killed, self.harm.remote, state) for state in states]
            for job, end in zip(self.jobs, ends, strict=True):
                try:
                    end.result()
                except AssertionError as error:
                    self._note(job, error)
        self.done["at once"] += 1

    def _or_refused(self, job: FolderJob, attempt: Callable[[], object]) -> None:
        """Attempt an epoch, which is refused if a value does not fit and the job has no dead letters."""
        try:
            attempt()
        except (BackfillError, AssertionError) as error:
            self._note(job, error)

    def _note(self, job: FolderJob, error: BaseException) -> None:
        """Count a justified refusal, also of a process, which printed it; others are raised."""
        told = f"{type(error).__name__} {error}"
        if _CHANGED in told:
            self._rebuild(job)
        elif job.lists or "UnsupportedValueError" not in told:
            raise error
        self.done["refused"] += 1

    def _until_right(self, job: FolderJob) -> None:
        """Correct the files that an epoch is refused because of; if rows were read, rebuild the job, as it says."""
        for _ in range(MOST_EPOCHS):
            try:
                if job.epoch() is None:
                    return
            except UnsupportedValueError as error:
                (file,) = [file for file in self.files if str(file) in str(error)]
                self._rewrite(file)
                self.done["corrected after a refusal"] += 1
            except UpstreamError as error:
                if _CHANGED not in str(error):
                    raise
                self._rebuild(job)
        raise WrongError(f"I4: still refused or not at its end after {MOST_EPOCHS} epochs")

    def _rebuild(self, job: FolderJob) -> None:
        job.rebuild(**job.fields)
        self.done["rebuilt"] += 1

    def _there(self) -> set[int]:
        return {row.id for rows in self.files.values() for row in rows}

    def _finish(self, job: FolderJob) -> None:
        mutations.throttle_job(None, store=job.backfill.store, requested_by="tester")
        for _ in range(MOST_EPOCHS):
            try:
                if job.epoch() is None:
                    return
            except BackfillError as error:
                # Another job's correction may have changed a file that this one had read.
                if _CHANGED not in str(error):
                    raise
                self._rebuild(job)
        raise WrongError(f"I4: there is still something to do after {MOST_EPOCHS} epochs")

    # ------------------------------------------------------------------------------------------------ the truth

    def _compare(self, job: FolderJob, *, is_end: bool = False) -> None:
        """
        Compare a view and its dead letters with the rows that were written.

        :param is_end: whether every row that is there must have been read.
        :raises WrongError: with what differs.
        """
        self.checks += 1
        found, letters = job.found(), job.letters()
        twice = [number for number, count in Counter([*letters, *(row["id"] for row in found)]).items() if count > 1]
        if twice:
            raise WrongError(f"I2: rows are there twice: {twice[:5]}")
        for row in found:
            drawn = self.rows[row["id"]]
            if drawn.bad or row != _as_found(drawn):
                raise WrongError(f"I1: {row} is in the view, and the file has {drawn}")
        strange = [number for number in letters if not self.rows[number].bad]
        if strange:
            raise WrongError(f"I1: rows that fit became dead letters: {strange[:5]}")
        missing = self._there() - self._seen(job)
        if is_end and missing:
            raise WrongError(f"I1: rows are missing: {sorted(missing)[:5]}")


def _as_found(drawn: DrawnRow) -> dict[str, Any]:
    at = drawn.values["at"]
    return {**drawn.values, "at": None if at is None else (at - EPOCH) // dt.timedelta(microseconds=1)}
