"""
Classes of faults, each on a job in the middle of its backfill, under both strategies.

A fault strikes; then the job goes on. It ends right, or it is refused by a named error; then what an operator would do
mends it, and it ends right.
"""

from __future__ import annotations

import datetime as dt
import json
import random
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from deltalake import DeltaTable

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.errors import BackfillError, StorageUnavailableError
from airflow_backfill_provider.core.job import BackfillJob
from airflow_backfill_provider.core.requester import Requester
from airflow_backfill_provider.core.sql import quote
from airflow_backfill_provider.protocol.backfill import Backfill
from airflow_backfill_provider.sources.delta.versions import version_of
from faults.campaign import Campaign, Outcome, Play, WrongError
from faults.spark import spark_session
from faults.table_shapes import COLUMNS, EXPECTED, QUERY, Shape, Stage, change, forget_tables, require_right, stage
from tests.builders import commit_file
from tests.integration.engine.lakehouse import Lakehouse, UnlockedEngine

Strike = Callable[[Lakehouse, random.Random], object]
Mend = Callable[[Lakehouse], object]


def rebuild(lakehouse: Lakehouse) -> None:
    """Start the job over."""
    assert lakehouse.job is not None
    fields = lakehouse.job.model_dump(mode="json")
    lakehouse.rebuild(**{name: fields[name] for name in fields if name not in {"name", "materialized_view", "state"}})


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """
    A class of faults.

    :param strike: makes it happen.
    :param mend: what an operator does about it, where it is refused.
    :param refused: whether it must be; otherwise either end is good.
    :param expected: the view's rows, as a query of the upstream.
    """

    strike: Strike
    mend: Mend = rebuild
    refused: bool = False
    expected: str = EXPECTED


FAULTS: dict[str, Fault] = {}


def fault(name: str, **how: object) -> Callable[[Strike], Strike]:
    """Add a class of faults."""

    def add(strike: Strike) -> Strike:
        FAULTS[name] = Fault(strike=strike, **how)  # type: ignore[arg-type]
        return strike

    return add


def view_of(lakehouse: Lakehouse) -> str:
    """Return the view's name in SQL."""
    return f"delta.{quote(lakehouse.view_path)}"


# --- the upstream ---------------------------------------------------------------------------------

STATEMENTS = {
    "a column is added": ("ALTER TABLE {upstream} ADD COLUMN extra INT",),
    "a column that nobody uses is dropped": (
        "ALTER TABLE {upstream} ADD COLUMN extra INT",
        "UPDATE {upstream} SET extra = 1 WHERE id % 2 = 0",
        "ALTER TABLE {upstream} DROP COLUMN extra",
    ),
    "a column that nobody uses is renamed": (
        "ALTER TABLE {upstream} ADD COLUMN extra INT",
        "UPDATE {upstream} SET extra = 1 WHERE id % 2 = 0",
        "ALTER TABLE {upstream} RENAME COLUMN extra TO other",
        "UPDATE {upstream} SET amount = 3 WHERE id % 5 = 0",
    ),
    "a column that nobody uses is widened": (
        "ALTER TABLE {upstream} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')",
        "ALTER TABLE {upstream} ADD COLUMN extra INT",
        "UPDATE {upstream} SET extra = 1 WHERE id % 2 = 0",
        "ALTER TABLE {upstream} ALTER COLUMN extra TYPE BIGINT",
        "UPDATE {upstream} SET amount = 3 WHERE id % 5 = 0",
    ),
    "all rows are overwritten": (
        "INSERT OVERWRITE {upstream} SELECT id + 7, name, amount + 1, at, tag, ratio, raw FROM {upstream}",
    ),
    "it is restored": ("DELETE FROM {upstream} WHERE id % 2 = 0", "RESTORE TABLE {upstream} TO VERSION AS OF 1"),
    "it is emptied": ("DELETE FROM {upstream}",),
    "it is truncated and filled again": (
        "TRUNCATE TABLE {upstream}",
        "INSERT INTO {upstream} SELECT id * 3, 'x', id, current_timestamp(), 't', 0, X'01' FROM range(20)",
    ),
    "its files are rewritten": ("OPTIMIZE {upstream} ZORDER BY (name)", "REORG TABLE {upstream} APPLY (PURGE)"),
    "keys are swapped": ("UPDATE {upstream} SET id = 39 - id",),
    "keys are null": (
        "UPDATE {upstream} SET id = NULL WHERE id = 3",
        "UPDATE {upstream} SET amount = 5 WHERE id IS NULL",
    ),
    "values at the edges of their types": (
        (
            "INSERT INTO {upstream} VALUES (9223372036854775807, repeat('x', 33), 9999999999.99, "
            "TIMESTAMP'9999-12-31 23:59:59.999999Z', '', double('NaN'), X''), "
            "(-9223372036854775808, repeat('x', 32), -0.00, TIMESTAMP'0001-01-01 00:00:00.000001Z', '\U0010ffff', "
            "double('-0.0'), X'00FF'), (1000, '\u0001', 0, TIMESTAMP'1969-12-31 23:59:59.999999Z', 'e\u0301', "
            "double('-Infinity'), X'FF')"
        ),
        "UPDATE {upstream} SET name = concat(name, 'y'), at = at + INTERVAL '0.000001' SECOND WHERE amount = 0",
    ),
    "many commits that change nothing": tuple(
        f"ALTER TABLE {{upstream}} SET TBLPROPERTIES ('n' = '{n}')" for n in range(12)
    ),
    "columns are left out of what is inserted": (
        "INSERT INTO {upstream} (id, name, amount, at, tag) SELECT id + 500, 'm', 1, NULL, NULL FROM range(9)",
    ),
}
"""What the upstream's owners may do, and the view follows."""

for _name, _statements in STATEMENTS.items():

    @fault(_name)
    def _run(lakehouse: Lakehouse, _: random.Random, statements: tuple[str, ...] = _statements) -> None:
        for statement in statements:
            lakehouse.sql(statement)


@fault("a column that the query uses is dropped", refused=True)
def _drop_used(lakehouse: Lakehouse, _: random.Random) -> None:
    lakehouse.sql("ALTER TABLE {upstream} DROP COLUMN at")
    lakehouse.sql("ALTER TABLE {upstream} ADD COLUMN at TIMESTAMP")


def _rename_back(lakehouse: Lakehouse) -> None:
    lakehouse.sql("ALTER TABLE {upstream} RENAME COLUMN stamp TO at")


@fault("a column that the query uses is renamed", refused=True, mend=_rename_back)
def _rename_used(lakehouse: Lakehouse, _: random.Random) -> None:
    lakehouse.sql("ALTER TABLE {upstream} RENAME COLUMN at TO stamp")


@fault("a column that the query uses is widened", refused=True)
def _widen_used(lakehouse: Lakehouse, _: random.Random) -> None:
    lakehouse.sql("ALTER TABLE {upstream} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
    lakehouse.sql("ALTER TABLE {upstream} ALTER COLUMN amount TYPE DECIMAL(20, 2)")


@fault("it is made anew at the same path", refused=True)
def _recreate(lakehouse: Lakehouse, _: random.Random) -> None:
    shutil.rmtree(lakehouse.upstream_path)
    lakehouse.make_upstream(COLUMNS)
    lakehouse.sql("INSERT INTO {upstream} SELECT id, 'new', id, NULL, 't', 1, NULL FROM range(15)")


@fault("it is replaced by CREATE OR REPLACE")
def _replace(lakehouse: Lakehouse, _: random.Random) -> None:
    lakehouse.sql(
        "CREATE OR REPLACE TABLE {upstream} USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true') AS "
        "SELECT id, 'replaced' AS name, CAST(id AS DECIMAL(12, 2)) AS amount, CAST(NULL AS TIMESTAMP) AS at, "
        "'t' AS tag, 1.5D AS ratio, X'00' AS raw FROM range(22)"
    )


def _feed_on(lakehouse: Lakehouse) -> None:
    lakehouse.sql("ALTER TABLE {upstream} SET TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    rebuild(lakehouse)


@fault("its change feed is switched off", refused=True, mend=_feed_on)
def _feed_off(lakehouse: Lakehouse, random: random.Random) -> None:
    lakehouse.sql("ALTER TABLE {upstream} SET TBLPROPERTIES (delta.enableChangeDataFeed = false)")
    change(lakehouse, random, 1)


@fault("its change feed was off for a while", refused=True)
def _feed_gap(lakehouse: Lakehouse, _: random.Random) -> None:
    lakehouse.sql("ALTER TABLE {upstream} SET TBLPROPERTIES (delta.enableChangeDataFeed = false)")
    lakehouse.sql("UPDATE {upstream} SET amount = 77 WHERE id < 5")
    lakehouse.sql("ALTER TABLE {upstream} SET TBLPROPERTIES (delta.enableChangeDataFeed = true)")


@fault("its changes are vacuumed", refused=True)
def _vacuum(lakehouse: Lakehouse, _: random.Random) -> None:
    lakehouse.sql("UPDATE {upstream} SET amount = 77 WHERE id < 5")
    lakehouse.sql("UPDATE {upstream} SET amount = 78 WHERE id < 5")
    session = lakehouse.spark.newSession()
    session.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    session.sql(f"VACUUM {lakehouse.upstream} RETAIN 0 HOURS")


@fault("its log is cleaned up behind a checkpoint", refused=True)
def _log_gap(lakehouse: Lakehouse, _: random.Random) -> None:
    lakehouse.sql("ALTER TABLE {upstream} SET TBLPROPERTIES ('delta.checkpointInterval' = '1')")
    for value in range(3):
        lakehouse.sql(f"UPDATE {{upstream}} SET amount = {value} WHERE id < 5")
    newest = DeltaTable(lakehouse.upstream_path).version()
    for version in range(newest - 1):
        commit_file(lakehouse.upstream_path, version).unlink(missing_ok=True)


def _duplicate(lakehouse: Lakehouse, _: random.Random) -> None:
    lakehouse.sql(
        "INSERT INTO {upstream} SELECT id, 'twice', 1, NULL, tag, ratio, raw FROM {upstream} WHERE id IN (2, 38)"
    )


def _remove_twice(lakehouse: Lakehouse) -> None:
    lakehouse.sql("DELETE FROM {upstream} WHERE name = 'twice'")
    rebuild(lakehouse)


def _mended_by(statement: str) -> Mend:
    """Return what corrects the upstream; the job goes on without a rebuild."""
    return lambda lakehouse: lakehouse.sql(statement)


@fault(
    "a key that was not read is there twice, and then once",
    refused=True,
    mend=_mended_by("DELETE FROM {upstream} WHERE name = 'twice'"),
)
def _duplicate_of_unread(lakehouse: Lakehouse, _: random.Random) -> None:
    lakehouse.sql("INSERT INTO {upstream} SELECT id, 'twice', 1, NULL, tag, ratio, raw FROM {upstream} WHERE id = 38")


@fault(
    "the query fails on a row that is corrected",
    refused=True,
    mend=_mended_by("UPDATE {upstream} SET id = 778 WHERE id = 777"),
)
def _bad_row(lakehouse: Lakehouse, random: random.Random) -> None:
    assert lakehouse.job is not None
    fields = lakehouse.job.model_dump(mode="json")
    kept = {name: fields[name] for name in fields if name not in {"name", "materialized_view", "state"}}
    lakehouse.rebuild(**{**kept, "query": QUERY.replace("raw FROM", "raw, 1 div (id - 777) AS share FROM")})
    for _ in range(random.randint(0, 3)):
        lakehouse.epoch()
    lakehouse.sql("INSERT INTO {upstream} VALUES (777, 'bad', 1, NULL, 't', 1, X'01')")


FAULTS["a key is there twice"] = Fault(strike=_duplicate, refused=True, mend=_remove_twice)


def _newer_feature(lakehouse: Lakehouse, _: random.Random) -> None:
    version = DeltaTable(lakehouse.upstream_path).version() + 1
    features = ["aFeatureOfTomorrow"]
    action = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features}
    info = {"timestamp": 1_900_000_000_000, "operation": "UPGRADE PROTOCOL", "operationParameters": {}}
    lines = [json.dumps({"commitInfo": info}), json.dumps({"protocol": action})]
    commit_file(lakehouse.upstream_path, version).write_text("\n".join(lines) + "\n", encoding="utf-8")


def _take_back_feature(lakehouse: Lakehouse) -> None:
    newest = max((Path(lakehouse.upstream_path) / "_delta_log").glob("*.json"))
    newest.unlink()


FAULTS["a feature of a newer Delta is switched on"] = Fault(
    strike=_newer_feature, refused=True, mend=_take_back_feature
)

KEPT = "kept aside"


def _files(folder: str) -> list[Path]:
    return [file for file in Path(folder).rglob("*.parquet") if "_delta_log" not in file.parts]


@contextmanager
def _aside(lakehouse: Lakehouse, folder: str) -> Iterator[None]:
    shutil.copytree(folder, lakehouse.folder / KEPT)
    yield


def _put_back(path: Callable[[Lakehouse], str]) -> Mend:
    def mend(lakehouse: Lakehouse) -> None:
        shutil.rmtree(path(lakehouse), ignore_errors=True)
        shutil.copytree(lakehouse.folder / KEPT, path(lakehouse))

    return mend


@fault("its data files are damaged", mend=_put_back(lambda lakehouse: lakehouse.upstream_path))
def _damage_upstream(lakehouse: Lakehouse, random: random.Random) -> None:
    change(lakehouse, random, 1)
    with _aside(lakehouse, lakehouse.upstream_path):
        for file in _files(lakehouse.upstream_path):
            (file.parent / f".{file.name}.crc").unlink(missing_ok=True)
            file.write_bytes(random.randbytes(100))


@fault("its newest commit is cut off", mend=_put_back(lambda lakehouse: lakehouse.upstream_path), refused=True)
def _damage_log(lakehouse: Lakehouse, random: random.Random) -> None:
    change(lakehouse, random, 1)
    with _aside(lakehouse, lakehouse.upstream_path):
        file = commit_file(lakehouse.upstream_path, DeltaTable(lakehouse.upstream_path).version())
        (file.parent / f".{file.name}.crc").unlink(missing_ok=True)
        file.write_bytes(file.read_bytes()[: random.randint(1, 60)])


# --- the view -------------------------------------------------------------------------------------

for _name, _statement in {
    "a stranger deletes from the view": "DELETE FROM {view} WHERE id % 3 = 0",
    "a stranger updates the view": "UPDATE {view} SET amount = 0",
    "a stranger inserts into the view": "INSERT INTO {view} SELECT * FROM {view}",
    "a stranger overwrites the view": "INSERT OVERWRITE {view} SELECT * FROM {view} WHERE id = 1",
    "a stranger restores the view": "RESTORE TABLE {view} TO VERSION AS OF 0",
    "a stranger truncates the view": "TRUNCATE TABLE {view}",
    "a stranger adds a column to the view": "ALTER TABLE {view} ADD COLUMN extra INT",
}.items():

    @fault(_name, refused=True)
    def _stranger(lakehouse: Lakehouse, _: random.Random, statement: str = _statement) -> None:
        lakehouse.spark.sql(statement.replace("{view}", view_of(lakehouse)))


@fault("the view is dropped", refused=True)
def _drop_view(lakehouse: Lakehouse, _: random.Random) -> None:
    shutil.rmtree(lakehouse.view_path)


def _remove_and_rebuild(lakehouse: Lakehouse) -> None:
    shutil.rmtree(lakehouse.view_path)
    rebuild(lakehouse)


@fault("another table lies at the view's path", refused=True, mend=_remove_and_rebuild)
def _other_view(lakehouse: Lakehouse, _: random.Random) -> None:
    shutil.rmtree(lakehouse.view_path)
    lakehouse.spark.range(3).write.format("delta").save(lakehouse.view_path)


@fault("the view is compacted and vacuumed")
def _maintain_view(lakehouse: Lakehouse, _: random.Random) -> None:
    session = lakehouse.spark.newSession()
    session.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    session.sql(f"OPTIMIZE {view_of(lakehouse)}")
    session.sql(f"VACUUM {view_of(lakehouse)} RETAIN 0 HOURS")
    session.sql(f"ALTER TABLE {view_of(lakehouse)} SET TBLPROPERTIES ('team' = 'orders')")


# --- the state ------------------------------------------------------------------------------------


def _state(lakehouse: Lakehouse) -> str:
    assert lakehouse.job is not None
    return lakehouse.job.state


for _name, _table, _how in (
    ("a position in the state is edited", "vnode_state", "update"),
    ("a row of the state is lost", "vnode_state", "delete"),
    ("a barrier is edited", "barrier_log", "update"),
    ("the barrier log loses its end", "barrier_log", "delete"),
    ("settings are edited", "settings", "update"),
    ("the state is restored", "vnode_state", "restore"),
    ("the barrier log is restored", "barrier_log", "restore"),
):

    @fault(_name, refused=True, mend=_put_back(_state))
    def _stranger_of_state(lakehouse: Lakehouse, _: random.Random, table: str = _table, how: str = _how) -> None:
        with _aside(lakehouse, _state(lakehouse)):
            opened = DeltaTable(f"{_state(lakehouse)}/{table}")
            if how == "restore":
                opened.restore(opened.version() - 1)
            elif how == "delete":
                opened.delete("vnode = 1" if table == "vnode_state" else "event = 'committed'")
            else:
                column = {"vnode_state": "row_count", "barrier_log": "to_version", "settings": "rate_limit"}[table]
                opened.update(updates={column: f"{column} + 1"})


@fault("the control tables are gone", refused=True, mend=_put_back(_state))
def _no_state(lakehouse: Lakehouse, _: random.Random) -> None:
    with _aside(lakehouse, _state(lakehouse)):
        shutil.rmtree(_state(lakehouse))


# --- the machine ----------------------------------------------------------------------------------


@fault("clocks are wrong")
def _skew(lakehouse: Lakehouse, random: random.Random) -> None:
    """Commits from the future and from the past, and runs whose clocks jump."""
    store = lakehouse.backfill.store
    settings = store.settings()
    newest = store.newest_barrier(settings)
    come_to = version_of(newest.upstream.to_offset if newest else settings.first_offset)
    change(lakehouse, random, 2)
    for file in (Path(lakehouse.upstream_path) / "_delta_log").glob("*.json"):
        if int(file.stem) <= come_to:
            # A version that says something else than when the job came to it is another one.
            continue
        lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        for line in lines:
            if "commitInfo" in line:
                line["commitInfo"]["timestamp"] += random.randint(-(10**9), 10**9)
        (file.parent / f".{file.name}.crc").unlink(missing_ok=True)
        file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    backfill = lakehouse.backfill
    for hours in (-1000, 1000):
        instant = dt.datetime.now(dt.UTC) + dt.timedelta(hours=hours)
        done = protocol.inject_barrier(
            store=store,
            upstream=backfill.upstream,
            requester=Requester(user="skewed"),
            clock=lambda instant=instant: instant,  # type: ignore[misc]
        )
        if done.barrier is not None and done.commit is None:
            lakehouse.run(done.barrier)


@fault("two runs at once")
def _two_runs(lakehouse: Lakehouse, random: random.Random) -> None:
    change(lakehouse, random, 2)
    _together(*[lambda: _epochs(lakehouse, 2)] * 2)


@fault("somebody writes to the upstream all the time")
def _busy_upstream(lakehouse: Lakehouse, random: random.Random) -> None:
    _together(lambda: _epochs(lakehouse, 3), lambda: change(lakehouse, random, 4))


def _epochs(lakehouse: Lakehouse, times: int) -> None:
    mine = Lakehouse(lakehouse.spark, lakehouse.folder)
    mine.job, mine.engine = lakehouse.job, UnlockedEngine(lakehouse.spark.newSession())
    for _ in range(times):
        mine.epoch()


def _together(*works: Callable[[], object]) -> None:
    errors: list[BaseException] = []

    def run(work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - looked at below
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=600)
    for error in errors:
        # A run may be refused because the other one was faster; what it left must be right all the same.
        if not isinstance(error, BackfillError):
            raise WrongError(f"a run ended by {error!r}") from error


@fault("the network is gone")
def _no_network(lakehouse: Lakehouse, _: random.Random) -> None:
    assert lakehouse.job is not None
    options = {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": "a secret",
        "AWS_REGION": "us-east-1",
        "max_retries": "0",
    }
    fields = lakehouse.job.model_dump(mode="json")
    away = {**fields, "state": "s3://bucket/state", "materialized_view": "s3://bucket/view"}
    backfill = Backfill(BackfillJob(**away), options)
    for look in (backfill.settings, backfill.status, backfill.store.state):
        try:
            look()
        except StorageUnavailableError as error:
            if "a secret" in str(error):
                raise WrongError(f"a secret shows: {error}") from error
        else:
            raise WrongError("something answered where there is no network")


@fault("a disk is full")
def _disk_full(lakehouse: Lakehouse, random: random.Random) -> None:
    """The view's folder becomes a disk of its own, with hardly any room; where that is not allowed, nothing happens."""
    change(lakehouse, random, 1)
    aside = lakehouse.folder / "view aside"
    shutil.move(lakehouse.view_path, aside)
    Path(lakehouse.view_path).mkdir()
    used = sum(file.stat().st_size for file in aside.rglob("*") if file.is_file())
    blocks = sum(-(-file.stat().st_size // 4096) for file in aside.rglob("*") if file.is_file())
    mounted = not subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={(blocks + 4) * 4096}", "tmpfs", lakehouse.view_path],  # noqa: S607
        capture_output=True,
        check=False,
    ).returncode
    shutil.copytree(aside, lakehouse.view_path, dirs_exist_ok=True)
    if not mounted:
        return
    try:
        lakehouse.epoch()
    except BackfillError as error:
        if not error.retryable:
            raise WrongError(f"a full disk ({used} bytes used) is said to be for good: {error}") from error
    finally:
        _unmount(lakehouse)


def _unmount(lakehouse: Lakehouse) -> None:
    """Give the view more room: what it has now, in a folder of the disk below."""
    left = lakehouse.folder / "view left"
    shutil.copytree(lakehouse.view_path, left)
    subprocess.run(["umount", lakehouse.view_path], check=True, capture_output=True)  # noqa: S607
    shutil.rmtree(lakehouse.view_path)
    shutil.move(left, lakehouse.view_path)


WRONG_FIELDS: tuple[dict[str, object], ...] = (
    {"query": "SELECT id FROM elsewhere"},
    {"query": "SELECT id, rand() AS r FROM upstream"},
    {"query": "SELECT count(*) AS n FROM upstream"},
    {"query": "SELECT id, nothing FROM upstream"},
    {"query": "DROP TABLE upstream"},
    {"key": ["nothing"]},
    {"key": []},
    {"vnode_count": 0},
    {"vnode_count": 10**9},
    {"rate_limit": -1},
    {"parallelism": 99},
    {"strategy": "hope"},
    {"state": "relative/../../state"},
    {"restrict_to": {"keys": {"up_to": ["soon"]}}},
    {"unknown": True},
)


@fault("the configuration is wrong")
def _configuration(lakehouse: Lakehouse, random: random.Random) -> None:
    job = lakehouse.job
    fields = random.choice(WRONG_FIELDS)
    try:
        lakehouse.rebuild(**{"query": "SELECT id FROM upstream", **fields})
    except BackfillError:
        pass
    except ValueError as error:
        # pydantic's own, which names the field.
        if not any(name in str(error) for name in fields):
            raise WrongError(f"{fields}: {error}") from error
    else:
        raise WrongError(f"{fields} was taken")
    finally:
        lakehouse.job = job


# --- the campaign ---------------------------------------------------------------------------------

_PROPERTIES = {"delta.columnMapping.mode": "name"}
SHAPES = (
    Shape(name="in place, mapped columns", properties=_PROPERTIES),
    Shape(name="arrangement, mapped columns", properties=_PROPERTIES, job={"strategy": "arrangement"}),
)


def play_fault(made: Stage, name: str, shape: Shape, random: random.Random) -> Outcome:
    """Let a fault strike a job, and look at its end."""
    found = FAULTS[name]
    lakehouse = made.restore(shape)
    about = f"{name} ({shape.name})"
    found.strike(lakehouse, random)
    forget(made)
    try:
        epochs = require_right(lakehouse, found.expected)
    except BackfillError as error:
        found.mend(lakehouse)
        forget(made)
        epochs = require_right(lakehouse, found.expected)
        return Outcome(type(error).__name__, checks=epochs, about=f"{about}: {error}")
    if found.refused:
        raise WrongError(f"{about}: not refused")
    return Outcome(checks=epochs, about=about)


def forget(made: Stage) -> None:
    """Let Delta look at tables anew whose files were changed under its feet."""
    forget_tables(made.spark)


@contextmanager
def _stage() -> Iterator[Play]:
    # First each class once, under one strategy or the other.
    rounds = range(len(SHAPES))
    cases = [(name, SHAPES[(n + i) % len(SHAPES)]) for n in rounds for i, name in enumerate(FAULTS)]
    with spark_session() as spark, stage(spark) as made:

        def play(case: int, random: random.Random) -> Outcome:
            return play_fault(made, *cases[case % len(cases)], random)

        yield play


CAMPAIGN = Campaign(
    name="classes",
    about="classes of faults: the upstream, the view, the state, the machine, and what people write",
    quick=len(FAULTS),
    full=5 * len(FAULTS) * len(SHAPES),
    checks="epochs",
    stage=_stage,
)
