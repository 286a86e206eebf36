"""Faults of the upstream: what its owners do to it, and damage."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

from deltalake import DeltaTable

from faults.classes.fault import Fault, Mend, adding_to, data_files, kept_aside, rebuild, restore_copy
from faults.table_shapes import COLUMNS, QUERY, change
from tests.builders import commit_file
from tests.integration.engine.lakehouse import Lakehouse

FAULTS: dict[str, Fault] = {}
fault = adding_to(FAULTS)


STATEMENTS = {
    "a column is added": ("ALTER TABLE {upstream} ADD COLUMN extra INT",),
    "an unused column is dropped": (
        "ALTER TABLE {upstream} ADD COLUMN extra INT",
        "UPDATE {upstream} SET extra = 1 WHERE id % 2 = 0",
        "ALTER TABLE {upstream} DROP COLUMN extra",
    ),
    "an unused column is renamed": (
        "ALTER TABLE {upstream} ADD COLUMN extra INT",
        "UPDATE {upstream} SET extra = 1 WHERE id % 2 = 0",
        "ALTER TABLE {upstream} RENAME COLUMN extra TO other",
        "UPDATE {upstream} SET amount = 3 WHERE id % 5 = 0",
    ),
    "an unused column is widened": (
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
"""What the upstream's owners may do; the view follows."""

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


@fault("it is created again at the same path", refused=True)
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


@fault("its log is cleaned up after a checkpoint", refused=True)
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
    """Return what corrects the upstream; the job continues without a rebuild."""
    return lambda lakehouse: lakehouse.sql(statement)


@fault(
    "an unread key occurs twice, and then once",
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


FAULTS["a key occurs twice"] = Fault(strike=_duplicate, refused=True, mend=_remove_twice)


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


@fault("its data files are damaged", mend=restore_copy(lambda lakehouse: lakehouse.upstream_path))
def _damage_upstream(lakehouse: Lakehouse, random: random.Random) -> None:
    change(lakehouse, random, 1)
    with kept_aside(lakehouse, lakehouse.upstream_path):
        for file in data_files(lakehouse.upstream_path):
            (file.parent / f".{file.name}.crc").unlink(missing_ok=True)
            file.write_bytes(random.randbytes(100))


@fault("its newest commit is cut off", mend=restore_copy(lambda lakehouse: lakehouse.upstream_path), refused=True)
def _damage_log(lakehouse: Lakehouse, random: random.Random) -> None:
    change(lakehouse, random, 1)
    with kept_aside(lakehouse, lakehouse.upstream_path):
        file = commit_file(lakehouse.upstream_path, DeltaTable(lakehouse.upstream_path).version())
        (file.parent / f".{file.name}.crc").unlink(missing_ok=True)
        file.write_bytes(file.read_bytes()[: random.randint(1, 60)])
