"""Views that unite tables which all keep changing: each version is the query over all as of one instant (I1)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from airflow_backfill_provider.core import errors
from airflow_backfill_provider.core.epoch import crash_points
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.jobs import mutations
from airflow_backfill_provider.jobs.planning.plan import make_plan
from airflow_backfill_provider.jobs.verification import verifier
from tests.dying import dies_at
from tests.integration.engine.attempts import Asleep
from tests.integration.engine.lakehouse import Lakehouse
from tests.integration.engine.shops import ALL_SALES, SALES, Shops
from tests.variants import exhaustive

pytestmark = pytest.mark.spark


@pytest.fixture
def shops(lakehouse: Lakehouse) -> Iterator[Shops]:
    yield Shops.of(lakehouse)
    crash_points.install(None)


@pytest.mark.parametrize("parallelism", [1, exhaustive(3)])
def test_the_history_of_each_branch_is_read_in_chunks(shops: Shops, parallelism: int) -> None:
    """I1, I4: chunks of one table and of two, while both change; then changes of both in one window."""
    shops.make("berlin", "paris")
    shops.define_sales(rate_limit=14, parallelism=parallelism)
    assert make_plan(shops.backfill).rows == 40
    shops.start()
    for read in (14, 28):
        done = shops.epoch()
        assert done is not None
        assert done.rows_read == read
        shops.change("UPDATE {paris} SET amount = amount - 1 WHERE id % 5 = 0", "DELETE FROM {berlin} WHERE id = 3")
    shops.assert_truth()
    shops.finish()
    status = shops.backfill.status()
    assert status.finished
    assert status.rows_read == 40
    shops.assert_query()
    shops.change(
        "UPDATE {paris} SET amount = 1 WHERE id = 1",
        "INSERT INTO {berlin} VALUES (1000, NULL, 1)",
        "DELETE FROM {paris} WHERE id IN (2, 1000)",
        "UPDATE {berlin} SET id = 3 WHERE id = 4",
    )
    before = shops.view_events()
    shops.epoch()
    assert len(shops.view_events()) == len(before) + 1, "changes of both tables are one commit (I7)"
    shops.assert_query()
    assert shops.epoch() is None


def test_branches_may_be_joins_and_share_tables(shops: Shops) -> None:
    """I1: keys of two types; a table in two branches has one window; a change of what a branch is joined with."""
    shops.make("berlin", "online", "customers", rows=8)
    shops.define_sales(ALL_SALES)
    shops.start()
    shops.finish()
    shops.assert_query()
    assert {"__branch", "__key_0", "__key_1"} <= set(shops.view().columns)
    shops.change(
        "UPDATE {customers} SET name = 'renamed' WHERE id = 1",
        "DELETE FROM {customers} WHERE id = 2",
        "UPDATE {berlin} SET amount = 6 WHERE id = 1",
        "UPDATE {berlin} SET amount = amount + 1 WHERE amount > 6",
        "DELETE FROM {online} WHERE code = 'o3'",
        "INSERT INTO {online} VALUES ('o300', NULL, 3)",
    )
    barrier = shops.pin()
    with dies_at(CrashPoint.AFTER_CHANGES_COMMIT):
        shops.run(barrier)
    shops.run(barrier)
    shops.assert_query()
    shops.change("UPDATE {customers} SET id = 2 WHERE id = 3")
    shops.epoch()
    shops.assert_united()
    assert shops.epoch() is None


def test_a_repair_replaces_units_of_any_branch(shops: Shops) -> None:
    """I7: by unit and by vnode, with the changes in one commit; rows of branches that there are not go, too."""
    shops.make("berlin", "online", "customers", rows=8)
    shops.define_sales(ALL_SALES)
    shops.start()
    shops.finish()
    shops.sql("UPDATE {view} SET amount = -1 WHERE __branch = 2 AND __key_0 = 7")
    shops.sql("DELETE FROM {view} WHERE __key_1 = 'o2'")
    shops.sql("INSERT INTO {view} VALUES (1, 'stray', 9, 9, NULL), (1, 'stray', 1, NULL, 'none')")
    shops.change("UPDATE {berlin} SET amount = 7 WHERE id = 1", "INSERT INTO {online} VALUES ('o9', 1, 1)")
    outcome = verifier.compare_now(shops.backfill, shops.engine)
    found = {key.key for compared in outcome.compared for key in compared.keys}
    assert found == {("2", "7", None), ("1", None, "o2"), ("9", "9", None), ("1", None, "none")}
    asked = {"store": shops.backfill.store, "requested_by": "tester"}
    mutations.repair_job(units=[["2", "7", None], ["1", None, "o2"], ["9", "9", None]], **asked)
    shops.epoch()
    (left,) = verifier.compare_now(shops.backfill, shops.engine).differences
    mutations.repair_job(vnodes=["0-3"], **asked)
    shops.epoch()
    shops.assert_query()
    assert left.keys == 1


def test_a_key_of_any_branch_that_is_there_twice_is_refused(shops: Shops) -> None:
    """I6: before the write, also if the view has the key's row already; corrected, the window is read again."""
    shops.make("berlin", "paris", rows=4)
    shops.define_sales()
    shops.start()
    shops.finish()
    for name in ("paris", "berlin"):
        shops.change(f"INSERT INTO {{{name}}} VALUES (3, NULL, 100)", "UPDATE {berlin} SET amount = 9 WHERE id = 1")
        with pytest.raises(errors.DuplicateKeyError, match=rf"{name} has several rows .* upstreams\.{name}\.key"):
            shops.epoch()
        shops.change(f"DELETE FROM {{{name}}} WHERE amount = 100")
        shops.epoch()
        shops.assert_query()


@pytest.mark.exhaustive
def test_a_zombie_of_an_epoch_writes_nothing_after_its_successor(shops: Shops) -> None:
    """I5: it has computed its changes of all tables, and wakes when another attempt has committed them and more."""
    shops.make("berlin", "paris", rows=6)
    shops.define_sales()
    shops.start()
    shops.finish()
    shops.change("UPDATE {berlin} SET amount = 50 WHERE id < 3", "DELETE FROM {paris} WHERE id = 1")
    barrier = shops.pin()
    zombie = Asleep(CrashPoint.BEFORE_CHANGES_COMMIT, lambda: shops.run(barrier, shops.unlocked_engine()))
    shops.run(barrier)
    shops.change("UPDATE {berlin} SET amount = 60 WHERE id < 2", "INSERT INTO {paris} VALUES (1, 1, 1)")
    shops.epoch()
    shops.assert_united()
    zombie.ends()
    shops.assert_united()
    assert shops.epoch() is None


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "point",
    [
        CrashPoint.AFTER_PIN,
        CrashPoint.BEFORE_SNAPSHOT_COMMIT,
        CrashPoint.AFTER_SNAPSHOT_COMMIT,
        CrashPoint.AFTER_STATE_COMMIT,
    ],
)
def test_a_chunk_of_two_tables_that_died_is_read_once(shops: Shops, point: CrashPoint) -> None:
    """I2, I4: pausing and throttling in between change nothing about which rows are read."""
    shops.make("berlin", "paris")
    shops.define_sales(rate_limit=16)
    shops.start()
    shops.epoch()
    asked = {"store": shops.backfill.store, "requested_by": "tester"}
    mutations.pause_job(**asked)
    shops.change("UPDATE {paris} SET amount = 1 WHERE id = 11")
    shops.epoch()
    shops.assert_truth()
    mutations.resume_job(**asked)
    mutations.throttle_job(11, **asked)
    with dies_at(point):
        shops.run(shops.pin())
    done = shops.epoch()
    assert done is not None
    assert done.rows_read == 27
    shops.assert_truth()
    shops.finish()
    shops.assert_united()


@pytest.mark.exhaustive
def test_an_epoch_that_is_given_up_leaves_the_rest_of_its_chunk(shops: Shops) -> None:
    """A row of the second table cannot be computed as of the job's creation, whatever it is by now: rebuild the job."""
    shops.make("berlin", "paris", rows=8)
    shops.change("UPDATE {paris} SET amount = 0 WHERE id = 6")
    shops.define_sales(
        "SELECT id, 100 div (amount + 1) AS share FROM berlin UNION ALL SELECT id, 100 div amount FROM paris WHERE "
        "id > 4 UNION ALL SELECT id, 0 FROM paris WHERE id <= 4",
        rate_limit=3,
    )
    shops.start()
    with pytest.raises(errors.QueryFailedError):
        shops.finish()
    shops.assert_truth()
    shops.change("UPDATE {paris} SET amount = 5 WHERE id = 6")
    with pytest.raises(errors.QueryFailedError):
        shops.finish()
    shops.assert_truth()
    shops.define_sales("SELECT id FROM berlin UNION ALL SELECT id FROM paris", rate_limit=3)
    shops.rebuild_sales()
    shops.finish()
    shops.assert_united()


@pytest.mark.exhaustive
def test_a_table_may_lead_one_branch_and_be_joined_in_another(shops: Shops) -> None:
    """I1: there it has all of its rows, whichever of them are read or affected."""
    shops.make("berlin", "paris", rows=10)
    shops.define_sales(
        "SELECT p.id, b.amount FROM paris AS p LEFT JOIN berlin AS b ON b.id = p.customer UNION ALL SELECT b.id, "
        "o.amount FROM berlin AS b JOIN berlin AS o ON o.id = b.customer",
        rate_limit=7,
    )
    shops.start()
    shops.finish()
    shops.assert_united()
    for change in (
        "UPDATE {berlin} SET amount = 77 WHERE id = 2",
        "UPDATE {berlin} SET id = 3 WHERE id = 2",
        "UPDATE {paris} SET customer = 3",
    ):
        if "id = 3" in change:
            shops.change("DELETE FROM {berlin} WHERE id = 3")
        shops.change(change)
        shops.epoch()
        shops.assert_united()


@pytest.mark.exhaustive
def test_a_union_of_one_upstream_has_its_branches_apart(shops: Shops) -> None:
    """The short form: two branches over the only table."""
    shops.make("berlin", rows=10)
    shops.define(
        upstream={"path": f"{shops.folder}/berlin", "key": ["id"]},
        query="SELECT id, amount FROM upstream UNION ALL SELECT id, -amount FROM upstream WHERE amount > 4",
        rate_limit=6,
    )
    shops.start()
    shops.finish()
    truth = "SELECT id, amount FROM {berlin} UNION ALL SELECT id, -amount FROM {berlin} WHERE amount > 4"
    for change in ("UPDATE {berlin} SET amount = 10 - amount", "DELETE FROM {berlin} WHERE id < 3"):
        shops.change(change)
        shops.finish()
        shops.assert_truth()
        shops.assert_equals_query(shops.named(truth))


@pytest.mark.exhaustive
def test_a_lead_of_the_jobs_own_is_read_first(shops: Shops) -> None:
    """The order of history follows the lead; the query's text and its branches stay."""
    shops.make("berlin", "paris")
    shops.define_sales(rate_limit=20, lead="paris")
    shops.start()
    shops.epoch()
    assert {row["shop"] for row in shops.view().select("shop").collect()} == {"paris"}
    shops.assert_truth()
    shops.finish()
    shops.assert_united()
    assert {name: found.lag_versions for name, found in shops.backfill.status().upstreams.items()} == {
        "paris": 0,
        "berlin": 0,
    }


def test_what_a_union_cannot_have_is_refused_when_it_is_created(shops: Shops) -> None:
    """I6: columns of different number; and a source whose history does not lie in files."""
    shops.make("berlin", "paris", rows=4)
    shops.define_sales("SELECT id FROM berlin UNION ALL SELECT id, amount FROM paris")
    with pytest.raises(errors.InvalidJobError, match="1 and 2 columns"):
        shops.start()
    shops.define_sales(SALES)
    shops.start()
    assert set(shops.backfill.settings().upstream.others) == {"paris"}
