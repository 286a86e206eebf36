"""
The truth about a view, with which it is compared.

That is the query over the table as the case's own history has it, or, once nobody writes, as the database evaluates it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql import SparkSession

from airflow_backfill_provider.core.scan.progress import InProgress, NotStarted
from faults.campaign import WrongError
from faults.cdc.case_database import CaseDatabase
from faults.cdc.drawing import DrawnTable
from faults.cdc.history import History
from faults.cdc.jobs import DrawnLakehouse

Key = tuple[str, ...]
"""A key, as the database writes it."""


class Truth:
    """
    Compares views with the truth.

    :param history: what was committed to the table.
    :param jobs: all jobs, in the order of the table's.
    :param spark: any session; the views are read in a new one.
    """

    def __init__(
        self,
        table: DrawnTable,
        database: CaseDatabase,
        history: History,
        jobs: list[DrawnLakehouse],
        spark: SparkSession,
    ) -> None:
        self.table = table
        self.database = database
        self.history = history
        self.jobs = jobs
        self.reader = spark.newSession()
        self.reader.conf.set("spark.sql.session.timeZone", "UTC")
        self.checks = 0

    def require_consistent(self, job: DrawnLakehouse) -> None:
        """Hold I1: compare the view with the query over the table as of the window's end, up to the position."""
        offset = _offset_of(job)
        if offset is None:
            return
        with self.database.connect() as connection:
            self.history.read(connection)
        (expected,) = self._expected(job, [self.history.rows(before=offset)])
        self._require_same(job, expected, f"I1 at {offset}")
        self.checks += 1

    def _expected(self, job: DrawnLakehouse, states: Iterable[dict[Key, Any]]) -> Iterator[dict[Key, Any]]:
        """Yield the rows that the view should have of the table's: the query's result, up to the job's position."""
        progress, number = job.backfill.store.state().vnodes[0], self.jobs.index(job)
        end: tuple[Any, ...] | None = None
        if isinstance(progress, InProgress):
            end = self._sortable(job.backfill.settings().key_order.encode(progress.position))
        for rows in states:
            yield {
                key: row[number]
                for key, row in rows.items()
                if row[number] is not None
                and not isinstance(progress, NotStarted)
                and (end is None or not self._is_after(self.table.sort_key(key), end))
            }

    def _is_after(self, key: tuple[Any, ...], end: tuple[Any, ...]) -> bool:
        return key < end if self.table.descending else key > end

    def _sortable(self, encoded: Any) -> tuple[Any, ...]:
        """Return a position as :meth:`DrawnTable.sort_key` returns keys; the database converts it."""
        with self.database.connect() as connection:
            connection.execute("SET TimeZone TO 'UTC'")
            written = [
                connection.execute(f"SELECT {column.of_text}", [text]).fetchall()[0][0]
                for column, text in zip(self.table.key, encoded, strict=True)
            ]
        return self.table.sort_key(written)

    def _view(self, job: DrawnLakehouse) -> dict[Key, list[Any]]:
        view = self.reader.read.format("delta").load(job.view_path)
        found: dict[Key, list[Any]] = {}
        for row in view.selectExpr(*self.table.in_view(job.drawn)).collect():
            written = self.table.written_view(job.drawn, list(row))
            key = tuple(written[: len(self.table.key)])
            if key in found:
                raise WrongError(f"{job.drawn.name}: two rows have the key {key}")
            found[key] = written
        return found

    def _require_same(self, job: DrawnLakehouse, wanted: dict[Key, Any], when: str) -> None:
        found = self._view(job)
        missing = sorted(set(wanted) - set(found))[:3]
        unexpected = sorted(set(found) - set(wanted))[:3]
        differing = [(wanted[key], found[key]) for key in set(wanted) & set(found) if wanted[key] != found[key]][:3]
        if missing or unexpected or differing:
            short = [tuple(_short(left, right)) for left, right in differing]
            right_after = self._right_after(job, found)
            raise WrongError(
                f"{job.drawn.name}: {when}: {len(wanted)} wanted, {len(found)} found; missing {missing}, unexpected "
                f"{unexpected}, differing {short}. It would be right after the commits at {right_after}"
            )

    def _right_after(self, job: DrawnLakehouse, found: dict[Key, Any]) -> list[int]:
        """Return commits after which the view would be right."""
        commits = [commit for commit, _ in self.history.transactions]
        expected = self._expected(job, (rows for _, rows in self.history.states()))
        return [commit for commit, rows in zip(commits, expected, strict=True) if rows == found][-3:]

    def require_right(self, job: DrawnLakehouse) -> None:
        """Compare the view of a job that is at its end with the query that the database evaluates; nobody writes."""
        number = self.jobs.index(job)
        with self.database.connect() as connection:
            for statement in ("TimeZone TO 'UTC'", "IntervalStyle TO 'iso_8601'", "extra_float_digits TO '1'"):
                connection.execute(f"SET {statement}")
            rows = connection.execute(
                f"SELECT json_build_array({', '.join(self.table.written_key(''))}), "
                f"({self.table.in_database(job.drawn)})::json FROM orders"
            ).fetchall()
            self.history.read(connection)
        now = {tuple(key): row for key, row in rows}
        if {key: row[number] for key, row in self.history.rows().items()} != now:
            raise AssertionError("the campaign's own history is not the table")
        self._require_same(job, {key: row for key, row in now.items() if row is not None}, "at the end")
        self.checks += 1


def _short(left: Any, right: Any) -> list[Any]:
    """Return the differing items of two rows."""
    return [(str(mine)[:60], str(other)[:60]) for mine, other in zip(left, right, strict=False) if mine != other]


def _offset_of(job: DrawnLakehouse) -> int | None:
    """Return the end of the window of the newest committed epoch; ``None`` if there is none."""
    commits = job.backfill.store.commits()
    if not commits or commits[-1].given_up:
        return None
    return job.backfill.store.pinned(commits[-1].epoch).upstream.to_offset.number
