"""Faults of the view: writes by others, and another table at its path."""

from __future__ import annotations

import random
import shutil

from faults.classes.fault import Fault, adding_to, rebuild
from tests.integration.engine.lakehouse import Lakehouse

FAULTS: dict[str, Fault] = {}
fault = adding_to(FAULTS)


for _name, _statement in {
    "another writer deletes from the view": "DELETE FROM {view} WHERE id % 3 = 0",
    "another writer updates the view": "UPDATE {view} SET amount = 0",
    "another writer inserts into the view": "INSERT INTO {view} SELECT * FROM {view}",
    "another writer overwrites the view": "INSERT OVERWRITE {view} SELECT * FROM {view} WHERE id = 1",
    "another writer restores the view": "RESTORE TABLE {view} TO VERSION AS OF 0",
    "another writer truncates the view": "TRUNCATE TABLE {view}",
    "another writer adds a column to the view": "ALTER TABLE {view} ADD COLUMN extra INT",
}.items():

    @fault(_name, refused=True)
    def _foreign_write(lakehouse: Lakehouse, _: random.Random, statement: str = _statement) -> None:
        lakehouse.sql(statement)


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
    session.sql(f"OPTIMIZE {lakehouse.view_name}")
    session.sql(f"VACUUM {lakehouse.view_name} RETAIN 0 HOURS")
    session.sql(f"ALTER TABLE {lakehouse.view_name} SET TBLPROPERTIES ('team' = 'orders')")
