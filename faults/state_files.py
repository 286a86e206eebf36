"""
Damage to control tables by broken files or foreign writers: the tables must be refused, or read as before the damage.

Each case damages the tables of a job once, in one of many ways, and then reads all of their content.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from airflow_backfill_provider.core.epoch.settings import SettingsChange
from airflow_backfill_provider.core.errors import BackfillError
from airflow_backfill_provider.core.scan.progress import BackfillState, Completed, InProgress, NotStarted
from airflow_backfill_provider.state.store import BackfillStore
from faults.campaign import Campaign, Outcome, Play, WrongError
from tests.builders import NOW, barrier_of, commit_of, settings_of

EPOCHS = 9
TABLES = ("settings", "barrier_log", "vnode_state")

Read = tuple[object, ...]


def make(state: str) -> None:
    """Write the control tables of a job: some changes of its settings, some epochs, vnodes in every state."""
    store = BackfillStore(state)
    settings = store.create(settings_of())
    for value in (5, 6):
        settings = store.change_settings(
            lambda before, value=value: before.changed(  # type: ignore[misc]
                SettingsChange.THROTTLE, requested_by="tester", requested_at=NOW, rate_limit=value
            )
        )
    for epoch in range(1, EPOCHS + 1):
        barrier = store.pin(barrier_of(epoch, settings_sequence=settings.sequence))
        vnodes = (Completed((4,), 3), InProgress((10 * epoch,), epoch), InProgress((epoch,), epoch), NotStarted())
        store.write_state(BackfillState(epoch=epoch, vnodes=vnodes), settings)
        store.record_commit(barrier, commit_of(barrier))


def read(state: str) -> Read:
    """Return the whole content of the tables, read as an injection reads it."""
    store = BackfillStore(state)
    history, newest = store.settings_history(), store.log_end().barrier
    if newest is not None:
        store.require_settings_of(newest, history[-1])
    return (
        history,
        store.state(),
        store.log(),
        store.log(since_epoch=EPOCHS - 2),
        store.log_end(),
        store.last_epoch(),
        store.created(),
    )


# --- damage to files ------------------------------------------------------------------------------


def _flip(content: bytearray, random: random.Random) -> None:
    for _ in range(random.choice([1, 1, 3, 20])):
        content[random.randrange(len(content))] ^= 1 << random.randrange(8)


def _cut(content: bytearray, random: random.Random) -> None:
    del content[random.randrange(len(content)) :]


def _cut_out(content: bytearray, random: random.Random) -> None:
    begin = random.randrange(len(content))
    del content[begin : begin + random.randint(1, 64)]


def _zero(content: bytearray, random: random.Random) -> None:
    begin = random.randrange(len(content))
    end = min(begin + random.randint(1, 256), len(content))
    content[begin:end] = bytes(end - begin)


def _repeat(content: bytearray, random: random.Random) -> None:
    begin = random.randrange(len(content))
    content[begin:begin] = content[begin : begin + random.randint(1, 64)]


def _fill(content: bytearray, random: random.Random) -> None:
    content[:] = random.randbytes(random.choice([0, 1, 64, len(content)]))


BYTES = (_flip, _cut, _cut_out, _zero, _repeat, _fill)


def damage_bytes(table: Path, random: random.Random) -> str:
    """Damage the bytes of a file."""
    file, kind = random.choice(_files(table)), random.choice(BYTES)
    content = bytearray(file.read_bytes())
    kind(content, random)
    file.write_bytes(content)
    return f"{kind.__name__} {file.name}"


def damage_file(table: Path, random: random.Random) -> str:
    """Remove a file, or replace it by another one."""
    files = _files(table)
    file, other = random.choice(files), random.choice(files)
    if file == other:
        file.unlink()
        return f"without {file.name}"
    shutil.copy(other, file)
    return f"{other.name} as {file.name}"


def damage_commit(table: Path, random: random.Random) -> str:
    """Remove an action from a commit, or add one from another commit."""
    commits = sorted((table / "_delta_log").glob("*.json"))
    file, other = random.choice(commits), random.choice(commits)
    lines = file.read_text(encoding="utf-8").splitlines()
    if random.random() < 0.5:
        lines.pop(random.randrange(len(lines)))
    else:
        lines.insert(random.randint(0, len(lines)), random.choice(other.read_text(encoding="utf-8").splitlines()))
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return f"another {file.name}"


def damage_row(table: Path, random: random.Random) -> str:
    """Change a value in a data file that stays readable."""
    file = random.choice(sorted(table.glob("*.parquet")))
    rows = pq.ParquetFile(file).read()
    if not rows.num_rows:
        return damage_bytes(table, random)
    at, name = random.randrange(rows.num_rows), random.choice(rows.column_names)
    values = rows.column(name).to_pylist()
    values[at] = _another(values[at], random)
    column = pa.array(values, rows.schema.field(name).type)
    pq.write_table(rows.set_column(rows.column_names.index(name), rows.schema.field(name), column), file)
    return f"{name} of row {at}"


# --- foreign writes through Delta -----------------------------------------------------------------


def write_update(table: Path, random: random.Random) -> str:
    """Edit a value of some rows."""
    rows = _rows(table)
    name = random.choice(rows.column_names)
    row = random.choice(rows.to_pylist())
    value, chosen = _literal(_another(row[name], random)), f"__version = {row['__version']}"
    if "vnode" in row:
        chosen += f" AND vnode = {row['vnode']}"
    DeltaTable(str(table)).update(updates={f'"{name}"': value}, predicate=chosen)
    return f"UPDATE {name} WHERE {chosen}"


def write_delete(table: Path, random: random.Random) -> str:
    """Remove rows."""
    rows = _rows(table).to_pylist()
    column = "vnode" if "vnode" in rows[0] else "__version"
    chosen = f"{column} {random.choice(['=', '>=', '<='])} {random.choice(rows)[column]}"
    DeltaTable(str(table)).delete(chosen)
    return f"DELETE WHERE {chosen}"


def write_append(table: Path, random: random.Random) -> str:
    """Add existing rows again, unchanged or changed."""
    rows = _rows(table)
    row = dict(random.choice(rows.to_pylist()))
    if random.random() < 0.7:
        name = random.choice([*row])
        row[name] = _another(row[name], random)
    write_deltalake(str(table), pa.Table.from_pylist([row], rows.schema), mode="append")
    return "INSERT"


def write_restore(table: Path, random: random.Random) -> str:
    """Restore an older version."""
    opened = DeltaTable(str(table))
    version = random.randrange(opened.version())
    opened.restore(version)
    return f"RESTORE {version}"


def write_overwrite(table: Path, random: random.Random) -> str:
    """Overwrite all rows with others."""
    rows = _rows(table)
    kept = rows.slice(0, random.randrange(rows.num_rows))
    write_deltalake(str(table), kept, mode="overwrite")
    return f"INSERT OVERWRITE {kept.num_rows}"


WAYS: tuple[Callable[[Path, random.Random], str], ...] = (
    damage_bytes,
    damage_bytes,
    damage_bytes,
    damage_file,
    damage_commit,
    damage_row,
    damage_row,
    write_update,
    write_delete,
    write_append,
    write_restore,
    write_overwrite,
)


def _files(table: Path) -> list[Path]:
    return sorted(file for file in table.rglob("*") if file.is_file() and file.stat().st_size)


def _rows(table: Path) -> pa.Table:
    answer = QueryBuilder().register("control", DeltaTable(str(table))).execute("SELECT * FROM control")
    return pa.table(answer.read_all())


def _another(value: object, random: random.Random) -> object:
    match value:
        case bool():
            return not value
        case int():
            return value + random.choice([-1, 1, 10])
        case float():
            return value + 0.5
        case str():
            return (
                value.replace("5", "6") if "5" in value and random.random() < 0.5 else value + random.choice(" x\x00")
            )
        case _:
            return None


def _literal(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return json.dumps(value) if isinstance(value, bool | int | float) else "NULL"


# --- the campaign ---------------------------------------------------------------------------------


@contextmanager
def _stage() -> Iterator[Play]:
    with tempfile.TemporaryDirectory(prefix="backfill-faults-") as folder:
        good, state = Path(folder, "good"), Path(folder, "state")
        make(str(state))
        shutil.copytree(state, good)
        whole = read(str(state))

        def play(_: int, random: random.Random) -> Outcome:
            shutil.rmtree(state)
            shutil.copytree(good, state)
            table = random.choice(TABLES)
            about = f"{table}: {random.choice(WAYS)(state / table, random)}"
            try:
                found = read(str(state))
            except BackfillError as error:
                if error.retryable:
                    raise WrongError(f"{about}: the error is retryable: {error}") from error
                return Outcome(type(error).__name__, about=about)
            if found != whole:
                differing = [i for i, (a, b) in enumerate(zip(found, whole, strict=True)) if a != b]
                raise WrongError(f"{about}: not refused, although the answers {differing} have changed")
            return Outcome(about=about)

        yield play


CAMPAIGN = Campaign(
    name="state-files",
    about="damaged files of control tables and foreign writes to them: refused by name, or without effect",
    quick=500,
    full=5_000,
    checks="tables",
    stage=_stage,
    processes=os.cpu_count() or 1,
)
