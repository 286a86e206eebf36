"""Random histories of writes, epochs and deaths, beside the history of every version in plain Python."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.epoch.barrier import Barrier, decoded
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.job.keep import Keep
from airflow_backfill_provider.jobs import creation, mutations, revert
from tests.dying import died
from tests.integration.engine.lakehouse import Lakehouse
from tests.kept_histories import deleted_of, history_of

pytestmark = [pytest.mark.spark, pytest.mark.exhaustive]

KEYS = range(12)
VNODES = 3
QUERY = "SELECT amount * 2 AS doubled FROM upstream WHERE status = 'paid'"
DEATHS = (
    None,
    CrashPoint.AFTER_PIN,
    CrashPoint.BEFORE_CHANGES_COMMIT,
    CrashPoint.AFTER_CHANGES_COMMIT,
    CrashPoint.AFTER_SNAPSHOT_COMMIT,
    CrashPoint.BEFORE_STATE_COMMIT,
)


class Played:
    """
    An upstream that changes at random, beside its rows as of each version.

    :param chance: draws the statements.
    """

    def __init__(self, lakehouse: Lakehouse, chance: random.Random) -> None:
        self.lakehouse = lakehouse
        self.chance = chance
        self.table: dict[int, tuple[str, int]] = {}
        self.versions: list[dict[int, tuple[int]]] = []
        lakehouse.make_upstream("order_id BIGINT, status STRING, amount INT")
        self._remember()
        self._insert([*KEYS[:8]])

    def write(self) -> None:
        """Commit one version."""
        present = self._some([*self.table])
        absent = self._some([key for key in KEYS if key not in self.table])
        drawn = self.chance.random()
        if drawn < 0.25 and absent:
            self._insert(absent)
        elif drawn < 0.5 and present:
            self._run(f"DELETE FROM {{upstream}} WHERE order_id IN ({_listed(present)})")
            self.table = {key: row for key, row in self.table.items() if key not in present}
        elif present:
            status, amount = self.chance.choice(["paid", "paid", "open"]), self.chance.randrange(3)
            self._run(
                f"UPDATE {{upstream}} SET status = '{status}', amount = {amount} WHERE order_id IN ({_listed(present)})"
            )
            self.table |= dict.fromkeys(present, (status, amount))
        self._remember()

    def _insert(self, keys: list[int]) -> None:
        rows = {key: ("paid", self.chance.randrange(3)) for key in keys}
        self._run("INSERT INTO {upstream} VALUES " + ", ".join(f"({key}, '{s}', {a})" for key, (s, a) in rows.items()))
        self.table |= rows
        self._remember()

    def _run(self, statement: str) -> None:
        self.lakehouse.change(statement)

    def _some(self, keys: list[int]) -> list[int]:
        return sorted(self.chance.sample(keys, min(len(keys), self.chance.randint(1, 4))))

    def _remember(self) -> None:
        newest = self.lakehouse.define(key=["order_id"]).upstream.latest().number or 0
        shown = {key: (amount * 2,) for key, (status, amount) in self.table.items() if status == "paid"}
        while len(self.versions) <= newest:
            self.versions.append(shown)


def _listed(keys: list[int]) -> str:
    return ", ".join(map(str, keys))


def read_at(lakehouse: Lakehouse, barriers: Iterator[Barrier]) -> Mapping[int, int]:
    """Return for each key the version at which its chunk was read."""
    settings = lakehouse.backfill.settings()
    order = settings.scan.order
    hashed = lakehouse.sql(f"SELECT id, pmod(hash(id), {VNODES}) AS vnode FROM range({len(KEYS)})").collect()
    vnodes = {row["id"]: row["vnode"] for row in hashed}
    found: dict[int, int] = {}
    for barrier in barriers:
        ranges = decoded((pinned for part in barrier.parts for pinned in part.ranges), order)
        version = barrier.chunk_offset.number
        assert version is not None
        for key in KEYS:
            position: tuple[Any, ...] = {
                "no_shuffle": (key,),
                "arrangement": (vnodes[key], key),
            }.get(settings.strategy, ())
            if ranges and (not position or any(covered.contains(position, order) for covered in ranges)):
                found.setdefault(key, version)
    return found


@pytest.mark.parametrize("visibility", ["every_epoch", "on_finish"])
@pytest.mark.parametrize("strategy", ["snapshot", "no_shuffle", "arrangement"])
@pytest.mark.parametrize("keep", ["history", "deleted"])
def test_a_random_history(lakehouse: Lakehouse, keep: str, strategy: str, visibility: str) -> None:
    """I1 to I4: what is kept is what a history of every version says, from where each key was read."""
    if strategy == "snapshot" and visibility == "every_epoch":
        pytest.skip("snapshot has on_finish only")
    chance = random.Random(f"{keep} {strategy} {visibility}")
    played = Played(lakehouse, chance)
    job = {"key": ["order_id"], "query": QUERY, "keep": keep, "strategy": strategy, "visibility": visibility}
    lakehouse.create(**job, rate_limit=3, vnode_count=VNODES)
    created = lakehouse.job
    for step in range(9):
        for _ in range(chance.randrange(4)):
            played.write()
        lakehouse.job = created
        if step == 6:
            mutations.throttle_job(None, store=lakehouse.backfill.store, requested_by="tester")
        died(chance.choice(DEATHS), lakehouse.epoch)
    lakehouse.finish()
    lakehouse.assert_truth()
    since = read_at(lakehouse, lakehouse.barriers())
    assert set(since) == set(KEYS)
    expected = {Keep.HISTORY: history_of, Keep.DELETED: deleted_of}[Keep(keep)](played.versions, since)
    columns = Keep(keep).columns
    rows = lakehouse.view().select("__key_order_id", "doubled", *columns).collect()
    assert sorted(((key, (doubled,), *rest) for key, doubled, *rest in map(tuple, rows)), key=repr) == sorted(
        expected, key=repr
    )


@pytest.mark.parametrize("as_of", [0, 4, "oldest"])
def test_a_random_history_that_began_before_the_job(lakehouse: Lakehouse, as_of: int | str) -> None:
    """I1 to I4: the view has it since the version that the job names, whatever it could read at its creation."""
    chance = random.Random(f"since {as_of}")
    played = Played(lakehouse, chance)
    for _ in range(7):
        played.write()
    job = {"key": ["order_id"], "query": QUERY, "keep": "history", "strategy": "snapshot", "as_of": as_of}
    lakehouse.create(**job, rate_limit=3, vnode_count=VNODES)
    created = lakehouse.job
    for _ in range(6):
        played.write()
        lakehouse.job = created
        died(chance.choice(DEATHS), lakehouse.epoch)
    lakehouse.finish()
    lakehouse.assert_truth()
    since = dict.fromkeys(KEYS, 0 if as_of == "oldest" else int(as_of))
    rows = lakehouse.view().select("__key_order_id", "doubled", *Keep.HISTORY.columns).collect()
    assert sorted(((key, (doubled,), *rest) for key, doubled, *rest in map(tuple, rows)), key=repr) == sorted(
        history_of(played.versions, since), key=repr
    )


def test_a_revert_brings_former_rows_back(lakehouse: Lakehouse) -> None:
    """I1: with the rows that the former view's last epoch left; its history goes on from there."""
    lakehouse.make_upstream("order_id BIGINT, status STRING, amount INT")
    lakehouse.sql("INSERT INTO {upstream} VALUES (1, 'paid', 1), (2, 'paid', 2)")
    lakehouse.create(key=["order_id"], query=QUERY, keep="history", strategy="no_shuffle")
    lakehouse.finish()
    lakehouse.change("UPDATE {upstream} SET amount = 5 WHERE order_id = 1")
    lakehouse.finish()
    store, said = lakehouse.backfill.store, {"requested_by": "tester", "discard_history": True}
    protocol.finish_job(store=store, requested_by="tester")
    assert lakehouse.job is not None
    upstream = lakehouse.backfill.upstream
    creation.rebuild_job(lakehouse.job, store=store, upstream=upstream, engine=lambda: lakehouse.engine, **said)
    lakehouse.finish()
    assert lakehouse.view().count() == 2
    revert.put_back(store, engine=lambda: lakehouse.engine, **said)
    lakehouse.finish()
    lakehouse.change("UPDATE {upstream} SET amount = 6 WHERE order_id = 1", "DELETE FROM {upstream} WHERE order_id = 2")
    lakehouse.finish()
    rows = lakehouse.view().select("doubled", "_valid_from", "_valid_to", "_is_current").collect()
    assert sorted(map(tuple, rows), key=repr) == [
        (10, 2, 3, False),
        (12, 3, None, True),
        (2, 1, 2, False),
        (4, 1, 4, False),
    ]
    lakehouse.assert_truth()
