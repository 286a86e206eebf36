"""Faults of the control tables: rows that are edited, lost or taken back."""

from __future__ import annotations

import random
import shutil

from deltalake import DeltaTable

from faults.classes.fault import Fault, adding_to, kept_aside, restore_copy
from tests.integration.engine.lakehouse import Lakehouse

FAULTS: dict[str, Fault] = {}
fault = adding_to(FAULTS)


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

    @fault(_name, refused=True, mend=restore_copy(_state))
    def _foreign_write(lakehouse: Lakehouse, _: random.Random, table: str = _table, how: str = _how) -> None:
        with kept_aside(lakehouse, _state(lakehouse)):
            opened = DeltaTable(f"{_state(lakehouse)}/{table}")
            if how == "restore":
                opened.restore(opened.version() - 1)
            elif how == "delete":
                opened.delete("vnode = 1" if table == "vnode_state" else "event = 'committed'")
            else:
                column = {"vnode_state": "row_count", "barrier_log": "to_version", "settings": "rate_limit"}[table]
                opened.update(updates={column: f"{column} + 1"})


@fault("the control tables are gone", refused=True, mend=restore_copy(_state))
def _no_state(lakehouse: Lakehouse, _: random.Random) -> None:
    with kept_aside(lakehouse, _state(lakehouse)):
        shutil.rmtree(_state(lakehouse))
