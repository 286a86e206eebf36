"""Rebuilds that keep the former view in service, and their way back, on real Spark and Delta."""

from __future__ import annotations

from typing import Any

import pytest
from deltalake import DeltaTable

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.epoch.settings import JobSettings, SettingsChange
from airflow_backfill_provider.core.errors import (
    InvalidJobError,
    VersionGoneError,
)
from airflow_backfill_provider.core.location import parent
from airflow_backfill_provider.jobs import revert
from airflow_backfill_provider.lake.tables.view_identity import FINISHED_PROPERTY, view_properties
from tests.integration.engine.attempts import Asleep
from tests.integration.engine.lakehouse import Lakehouse
from tests.integration.engine.succeeding import grow, growing, grown, step

pytestmark = pytest.mark.spark

FORMER = "SELECT id, name FROM upstream"
LATTER = "SELECT id, price * 2 AS twice FROM upstream WHERE id <> 3"


@pytest.fixture
def served(numbers: Lakehouse) -> Lakehouse:
    """A finished view."""
    numbers.create(query=FORMER)
    numbers.finish()
    protocol.finish_job(store=numbers.backfill.store, requested_by="tester")
    return numbers


def put_back(lake: Lakehouse) -> JobSettings:
    """Put the former view back."""
    return revert.put_back(lake.backfill.store, engine=lambda: lake.engine, requested_by="tester")


@pytest.mark.exhaustive
def test_readers_see_the_former_view_fresh_and_whole_until_the_latter_takes_its_place(served: Lakehouse) -> None:
    """Each version of the view, before, during and after, is one of both queries as of a version of the upstream."""
    first = served.backfill.store.settings()
    grow(served, query=LATTER, rate_limit=4)
    statements = [
        "INSERT INTO {upstream} SELECT id, concat('n', id), id FROM range(20, 23)",
        "UPDATE {upstream} SET price = price + 1, name = upper(name) WHERE id % 2 = 0",
        "DELETE FROM {upstream} WHERE id = 5",
    ]
    for statement in statements:
        served.change(statement)
        step(served)
        served.epoch()
        served.assert_equals_query(FORMER.replace("upstream", "{upstream}"))
        assert served.backfill.store.settings().incarnation == first.incarnation
    grown(served)
    folder = parent(growing(served).job.state)
    assert served.exists(folder)
    commits = served.finish()
    served.assert_equals_query(LATTER.replace("upstream", "{upstream}"))
    assert commits[-1].completed
    settings = protocol.finish_job(store=served.backfill.store, requested_by="tester")
    assert (settings.successor, settings.finished_epoch) == (None, commits[0].epoch)
    assert not served.exists(folder)
    _assert_each_version_is_whole(served)
    served.change("UPDATE {upstream} SET price = -1 WHERE id = 1")
    served.finish()
    served.assert_equals_query(LATTER.replace("upstream", "{upstream}"))


def _assert_each_version_is_whole(lake: Lakehouse) -> None:
    """Compare each version of a finished view with both queries as of each version of the upstream."""
    whole: set[frozenset[tuple[Any, ...]]] = set()
    for rows in _versions(lake, lake.upstream_path):
        whole.add(frozenset((row["id"], row["name"]) for row in rows))
        whole.add(frozenset((row["id"], row["price"] * 2) for row in rows if row["id"] != 3))
    seen = [[tuple(row.values()) for row in rows] for rows in _versions(lake, lake.view_path)]
    finished = next(version for version, rows in enumerate(seen) if rows)
    for version, shown in enumerate(seen[finished:], start=finished):
        assert len(set(shown)) == len(shown)
        assert frozenset(shown) in whole, f"version {version} of the view is neither"


def _versions(lake: Lakehouse, path: str) -> list[list[dict[str, Any]]]:
    table = DeltaTable(path, storage_options=lake.storage_options)
    found = []
    for version in range(table.version() + 1):
        table.load_as_version(version)
        found.append(table.to_pyarrow_table().to_pylist())
    return found


@pytest.mark.exhaustive
def test_the_view_is_finished_in_the_commit_that_replaces_it(served: Lakehouse) -> None:
    """A job that reads the view never finds it unfinished."""
    grow(served, query=LATTER)
    grown(served)
    barrier = served.inject()
    assert barrier is not None
    served.engine.ensure_tables(
        served.backfill.settings(), served.backfill.store.earlier_incarnations(served.backfill.settings())
    )
    properties = view_properties(served.view_path, served.storage_options)
    assert properties is not None
    assert properties[FINISHED_PROPERTY] == "true"
    served.assert_equals_query(LATTER.replace("upstream", "{upstream}"))


@pytest.mark.exhaustive
@pytest.mark.parametrize("point", [CrashPoint.BEFORE_CREATION_COMMIT, CrashPoint.AFTER_CREATION_COMMIT])
def test_a_process_that_hangs_in_the_handover_changes_nothing_afterwards(served: Lakehouse, point: CrashPoint) -> None:
    """I5: another process hands over meanwhile, and epochs go on."""
    grow(served, query=LATTER)
    grown(served)
    barrier = served.inject()
    assert barrier is not None
    hanging = Asleep(point, lambda: served.run(barrier, served.unlocked_engine()))
    assert hanging.hung
    served.run(barrier, served.unlocked_engine())
    served.change("UPDATE {upstream} SET price = 100 WHERE id = 1")
    served.finish()
    hanging.ends()
    served.assert_equals_query(LATTER.replace("upstream", "{upstream}"))


@pytest.mark.exhaustive
def test_the_former_view_comes_back_and_is_kept_fresh(served: Lakehouse) -> None:
    """Its rows, its columns, its definition and its progress; epoch numbers continue."""
    grow(served, query=LATTER, rate_limit=4)
    grown(served)
    served.finish()
    protocol.finish_job(store=served.backfill.store, requested_by="tester")
    served.change("UPDATE {upstream} SET name = 'later' WHERE id = 2")
    served.finish()
    last = served.backfill.store.last_epoch()
    settings = put_back(served)
    assert settings.job["query"] == FORMER
    assert settings.change is SettingsChange.REVERT
    served.assert_equals_query("SELECT id, name FROM {upstream} VERSION AS OF 1")
    with pytest.raises(InvalidJobError, match="was put back by tester to a former definition with another query"):
        served.backfill.require_created()
    served.define(query=FORMER)
    served.backfill.require_created()
    commits = served.finish()
    assert commits[0].epoch == last + 1
    served.assert_equals_query(FORMER.replace("upstream", "{upstream}"))
    served.assert_truth()
    protocol.finish_job(store=served.backfill.store, requested_by="tester")
    # And the rebuild can be taken back in.
    put_back(served)
    served.finish()
    served.assert_equals_query(LATTER.replace("upstream", "{upstream}"))


@pytest.mark.exhaustive
def test_a_rebuild_that_emptied_the_view_can_be_undone(served: Lakehouse) -> None:
    """Also before its first epoch, and after an unfinished one."""
    served.rebuild(query=LATTER, rate_limit=4)
    served.epoch()
    put_back(served)
    served.define(query=FORMER)
    served.assert_equals_query(FORMER.replace("upstream", "{upstream}"))
    served.finish()
    served.assert_truth()


@pytest.mark.exhaustive
def test_what_vacuum_deleted_is_not_put_back(served: Lakehouse) -> None:
    """It is refused before anything is written."""
    grow(served, query=LATTER, rate_limit=4)
    grown(served)
    served.finish()
    view = DeltaTable(served.view_path, storage_options=served.storage_options)
    view.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    before = served.backfill.store.settings()
    with pytest.raises(VersionGoneError, match=r"lacks .*part-.*deleted, for example by VACUUM"):
        put_back(served)
    assert served.backfill.store.settings() == before
    served.assert_equals_query(LATTER.replace("upstream", "{upstream}"))
