"""Plays a case: epochs under faults, and a comparison with the truth after each of them."""

from __future__ import annotations

import itertools
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
from psycopg import conninfo, sql
from pyspark.sql import SparkSession

from airflow_backfill_provider.core import crash_points
from airflow_backfill_provider.core.crash_points import CrashPoint
from airflow_backfill_provider.core.errors import (
    BackfillError,
    ChangeFeedGapError,
    UpstreamReplacedError,
    UpstreamSchemaChangedError,
)
from airflow_backfill_provider.core.progress import InProgress, NotStarted
from airflow_backfill_provider.execution.spark_engine import SparkEngine
from airflow_backfill_provider.protocol import finish, mutations
from airflow_backfill_provider.verification.verifier import compare_now
from faults.campaign import Outcome, WrongError
from faults.cdc.drawing import DrawnJob, DrawnTable, a_table
from faults.cdc.history import History, record
from faults.cdc.writer import WriterProcess
from tests.connect_server import PORT
from tests.dying import Died
from tests.integration.engine import connect_client
from tests.integration.engine.attempts import is_killed
from tests.integration.engine.lakehouse import Lakehouse
from tests.postgres_server import PASSWORD, PostgresServer

POINTS = (
    CrashPoint.AFTER_PIN,
    CrashPoint.BEFORE_CHANGES_COMMIT,
    CrashPoint.AFTER_CHANGES_COMMIT,
    CrashPoint.BEFORE_LANDING_COMMIT,
    CrashPoint.AFTER_LANDING_COMMIT,
    CrashPoint.BEFORE_READ_AHEAD_COMMIT,
    CrashPoint.AFTER_READ_AHEAD_COMMIT,
    CrashPoint.BEFORE_SNAPSHOT_COMMIT,
    CrashPoint.AFTER_SNAPSHOT_COMMIT,
    CrashPoint.BEFORE_STATE_COMMIT,
    CrashPoint.AFTER_STATE_COMMIT,
)

MOST_FAILURES = 8
"""The most attempts that may fail one after the other."""

MOST_EPOCHS = 60
ROUNDS = 8
MOST_SECONDS = 5.0
"""After so long, an attempt is mostly done."""

_numbers = itertools.count()

Key = tuple[str, ...]
"""A key, as the database writes it."""


class DrawnLakehouse(Lakehouse):
    """One of the jobs."""

    def __init__(self, spark: SparkSession, folder: Path, job: DrawnJob, fields: dict[str, Any]) -> None:
        super().__init__(spark, folder)
        self.drawn = job
        self.fields = fields
        self.engine = SparkEngine(spark.newSession())


class Game:
    """
    A case.

    :param seed: decides on the table and the faults.
    :param server: the server of all cases.
    :param folder: a folder for the views.
    """

    def __init__(
        self, seed: str, chance: random.Random, server: PostgresServer, spark: SparkSession, folder: Path
    ) -> None:
        self.seed = seed
        self.chance = chance
        self.server = server
        self.spark = spark
        self.reader = spark.newSession()
        self.reader.conf.set("spark.sql.session.timeZone", "UTC")
        self.folder = folder
        self.table: DrawnTable = a_table(random.Random(seed))
        self.name = f"case_{next(_numbers)}"
        self.connection_id = f"db_{self.name}"
        self.history = History(f"audit_{self.name}")
        self.done: Counter[str] = Counter()
        self.checks = 0

    def play(self) -> Outcome:
        """Play the case."""
        self.server.create_database(self.name)
        os.environ[f"AIRFLOW_CONN_{self.connection_id.upper()}"] = self.server.uri(self.name)
        with self._connect() as connection:
            for statement in self.table.statements():
                connection.execute(statement)
            record(connection, self.table)
            connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [self.history.slot])
        self.writer = WriterProcess(self.seed, self._parameters())
        try:
            self._play()
        except Exception as error:
            error.add_note(f"drawn: {self.table}; done: {dict(self.done)}")
            raise
        finally:
            self.writer.stop()
            self._clean_up()
        return Outcome(checks=self.checks, about=f"{self._about()}: {dict(self.done)}")

    def _about(self) -> str:
        table = self.table
        facts = {
            ", ".join(column.type for column in table.key): True,
            table.identity: True,
            "partitioned": table.partitioned,
            "long": table.long,
            "truncate": table.truncates,
            f"{len(table.jobs)} jobs": True,
        }
        return "; ".join(fact for fact, is_so in facts.items() if is_so)

    def _play(self) -> None:
        self.writer.do("fill")
        self.writer.do("calm")
        self.jobs = [self._job(job) for job in self.table.jobs]
        for job in self.jobs:
            self._create(job)
        self.writer.do("write")
        for _ in range(ROUNDS):
            self._epoch(self.chance.choice(self.jobs), self._fault())
        self._require_right()
        self.writer.do("write")
        for _ in range(3):
            self._epoch(self.chance.choice(self.jobs), self._fault())
        self._require_right()
        ending = self.chance.choice(
            [self._rename, self._drop_slot, self._recreate, self._verify, self._cancel, self._rebuild]
        )
        self.done[ending.__name__] += 1
        ending()
        self.done["transactions"] = self.writer.do("pause")

    # --------------------------------------------------------------------------------------------------- epochs

    def _epoch(self, job: DrawnLakehouse, fault: Callable[[DrawnLakehouse], None]) -> None:
        """Attempt an epoch under a fault, and then until it is committed; compare the view."""
        fault(job)
        self._wait_for_server()
        for attempt in itertools.count():
            try:
                job.epoch()
                break
            except BackfillError as error:
                self.done[type(error).__name__] += 1
                if not error.retryable or attempt > MOST_FAILURES:
                    raise
                time.sleep(0.5)
        self._require_consistent(job)

    def _fault(self) -> Callable[[DrawnLakehouse], None]:
        chance = self.chance.random()
        if chance < 0.25:
            return lambda _: None
        if chance < 0.45:
            return self._die
        if chance < 0.6:
            return self._kill_client
        if chance < 0.8:
            return self._kill_server
        return self._cut_connections

    def _die(self, job: DrawnLakehouse) -> None:
        """Die at a point."""
        at, skipped = self.chance.choice(POINTS), self.chance.choice([0, 0, 1])
        seen = itertools.count()

        def die(point: CrashPoint) -> None:
            if point is at and next(seen) == skipped:
                raise Died(point)

        crash_points.install(die)
        try:
            self._attempt(job, f"died {at}")
        finally:
            crash_points.install(None)

    def _kill_client(self, job: DrawnLakehouse) -> None:
        """Kill an attempt in a separate process by SIGKILL."""
        remote = f"sc://127.0.0.1:{self.spark.conf.get(PORT)}"
        point = str(self.chance.choice(POINTS))
        if self.chance.random() < 0.5:
            point = f"{connect_client.AFTER}{self.chance.uniform(1.5, 1.5 + MOST_SECONDS):.2f}"
        assert job.job is not None
        if is_killed(remote, job.job.state, point):
            self.done["killed"] += 1

    def _kill_server(self, job: DrawnLakehouse) -> None:
        """Kill the server in the middle of an attempt, and start it again."""
        down = self.chance.choice([0.0, 0.0, 1.0, 4.0])

        def kill() -> None:
            self.server.kill()
            time.sleep(down)
            self.server.start()

        self._during(job, kill, "server killed")

    def _cut_connections(self, job: DrawnLakehouse) -> None:
        """Let the server end connections of the package."""
        times = self.chance.choice([1, 3])

        def cut() -> None:
            with self._connect() as connection:
                for _ in range(times):
                    connection.execute(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                        "WHERE application_name = 'airflow_backfill' AND datname = current_database()"
                    )
                    time.sleep(0.3)

        self._during(job, cut, "connections cut")

    def _during(self, job: DrawnLakehouse, harm: Callable[[], None], what: str) -> None:
        """Do harm at a named point, or after a random time."""
        if self.chance.random() < 0.5:
            at, is_done = self.chance.choice(POINTS), threading.Event()

            def reach(point: CrashPoint) -> None:
                if point is at and not is_done.is_set():
                    is_done.set()
                    harm()

            crash_points.install(reach)
            try:
                self._attempt(job, f"{what} {at}")
            finally:
                crash_points.install(None)
            return
        timer = threading.Timer(self.chance.uniform(0.05, MOST_SECONDS), harm)
        timer.start()
        try:
            self._attempt(job, what)
        finally:
            timer.join()

    def _attempt(self, job: DrawnLakehouse, what: str) -> None:
        """Attempt an epoch, which may fail by a named error that a retry helps against."""
        try:
            job.epoch()
        except Died:
            self.done["died"] += 1
        except BackfillError as error:
            self.done[f"{type(error).__name__}"] += 1
            if not error.retryable:
                error.add_note(what)
                raise

    # ------------------------------------------------------------------------------------------------- the truth

    def _require_consistent(self, job: DrawnLakehouse) -> None:
        """Hold I1: compare the view with the query over the table as of the window's end, up to the position."""
        offset = _offset_of(job)
        if offset is None:
            return
        with self._connect() as connection:
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
        with self._connect() as connection:
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

    def _require_right(self) -> None:
        """Pause the writer, run the jobs to their ends, and compare with the query that the database evaluates."""
        self._wait_for_server()
        self.writer.do("pause")
        for number, job in enumerate(self.jobs):
            self._finish(job)
            with self._connect() as connection:
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

    def _finish(self, job: DrawnLakehouse) -> None:
        for _ in range(MOST_EPOCHS):
            if job.epoch() is None:
                return
            self._require_consistent(job)
        raise WrongError(f"I4: there is still something to do after {MOST_EPOCHS} epochs")

    # --------------------------------------------------------------------------------------------------- endings

    def _rename(self) -> None:
        """Rename a used column: refused by its name, and no harm once it has its name again."""
        job = self.jobs[0]
        column = f"p{job.drawn.columns[0]}"
        with self._connect() as connection:
            connection.execute(f"ALTER TABLE orders RENAME {column} TO other")
            self._require_refused(job, UpstreamSchemaChangedError, column)
            connection.execute(f"ALTER TABLE orders RENAME other TO {column}")
        self.writer.do("write")
        self._epoch(job, self._fault())
        self._require_right()

    def _drop_slot(self) -> None:
        """Drop the slot: refused, and right again after a rebuild."""
        with self._connect() as connection:
            connection.execute("SELECT pg_drop_replication_slot(%s)", [self._slot_name])
        self.writer.do("write")
        for job in self.jobs:
            self._require_refused(job, ChangeFeedGapError, "rebuild")
        self._rebuild()

    def _recreate(self) -> None:
        """Drop the table and create it again: refused, and right again after a rebuild."""
        with self._connect() as connection:
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
        """Compare with the package's own verification, while the writer writes."""
        self.writer.do("write")
        for job in self.jobs:
            outcome = compare_now(job.backfill, job.engine)
            if not outcome.equal:
                raise WrongError(f"verification: {outcome}")

    def _cancel(self) -> None:
        """Cancel a job: the other one, and a rebuild, are unharmed."""
        job = self.jobs[0]
        mutations.cancel_job(store=job.backfill.store, requested_by="tester")
        finish.clean_up_after_cancelling(job.backfill.store)
        with self._connect() as connection:
            slots = connection.execute(
                "SELECT FROM pg_replication_slots WHERE slot_name = %s", [self._slot_name]
            ).fetchall()
        if len(slots) != len(self.jobs) - 1:
            raise WrongError(f"there are {len(slots)} slots after cancelling one of {len(self.jobs)} jobs")
        self.writer.do("write")
        for other in self.jobs[1:]:
            self._epoch(other, self._fault())
        self._rebuild()

    def _rebuild(self) -> None:
        """Rebuild the jobs while the writer writes."""
        self.writer.do("calm")
        for job in self.jobs:
            job.rebuild(**job.fields)
        self.writer.do("write")
        for _ in range(2 * len(self.jobs)):
            self._epoch(self.chance.choice(self.jobs), self._fault())
        self._require_right()

    def _require_refused(self, job: DrawnLakehouse, error: type[BackfillError], message: str) -> None:
        try:
            job.epoch()
        except error as refused:
            if message not in str(refused):
                raise WrongError(f"the refusal does not say {message}: {refused}") from refused
            self.done[error.__name__] += 1
            return
        raise WrongError(f"not refused by {error.__name__}")

    # --------------------------------------------------------------------------------------------------- details

    @property
    def _slot_name(self) -> str:
        if len(self.table.jobs) > 1:
            return f"shared_{self.name}"
        return f"airflow_backfill_{self.name}_first"

    def _job(self, job: DrawnJob) -> DrawnLakehouse:
        table = self.table
        postgres: dict[str, Any] = {"connection": self.connection_id, "table": "public.orders"}
        postgres["key"] = [{"column": name, "descending": table.descending} for name in table.key_names]
        if len(table.jobs) > 1:
            postgres |= {"slot": self._slot_name, "change_log": str(self.folder / "change_log")}
        fields = {
            "name": f"{self.name}_{job.name}",
            "upstream": {"postgres": postgres},
            "query": table.query(job),
            "rate_limit": job.rate_limit,
        }
        return DrawnLakehouse(self.spark, self.folder / job.name, job, fields)

    def _create(self, job: DrawnLakehouse) -> None:
        job.create(**job.fields)

    def _parameters(self) -> dict[str, str]:
        return {
            "host": "127.0.0.1",
            "port": str(self.server.port),
            "dbname": self.name,
            "user": "admin",
            "password": PASSWORD,
        }

    def _connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(conninfo.make_conninfo(**self._parameters()), autocommit=True)

    def _wait_for_server(self) -> None:
        until = time.monotonic() + 60
        while not self._is_up():
            if time.monotonic() > until:
                raise AssertionError("the server does not start")
            time.sleep(0.1)

    def _is_up(self) -> bool:
        try:
            self._connect().close()
        except psycopg.OperationalError:
            return False
        return True

    def _clean_up(self) -> None:
        """Drop the case's slots and its database."""
        with suppress(psycopg.Error), self.server.connect() as connection:
            until = time.monotonic() + 30
            while time.monotonic() < until:
                with suppress(psycopg.errors.ObjectInUse):
                    connection.execute(
                        "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots "
                        "WHERE active AND database = %s",
                        [self.name],
                    )
                    connection.execute(
                        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = %s",
                        [self.name],
                    )
                    break
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(self.name)))


def _short(left: Any, right: Any) -> list[Any]:
    """Return the differing items of two rows."""
    return [(str(mine)[:60], str(other)[:60]) for mine, other in zip(left, right, strict=False) if mine != other]


def _offset_of(job: DrawnLakehouse) -> int | None:
    """Return the end of the window of the newest committed epoch; ``None`` if there is none."""
    commits = job.backfill.store.commits()
    if not commits or commits[-1].given_up:
        return None
    return job.backfill.store.pinned(commits[-1].epoch).upstream.to_offset.number
