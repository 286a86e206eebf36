"""Tables that are replaced, and versions that are gone, while a verification compares them."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
from deltalake import DeltaTable

from airflow_backfill_provider.core.errors import (
    ChangeFeedGapError,
    DataFileError,
    MaterializedViewError,
    UpstreamReplacedError,
    VerificationFailedError,
    VersionGoneError,
)
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.jobs.verification import verifier
from tests.builders import CHANGE_DATA_FEED, ORDERS
from tests.plain_engine import CountingEngine
from tests.unit.jobs.verification.verifying import VERA, Forgetful, Watching, epoch

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


def test_another_table_at_the_views_path_is_refused(backfill, lake):
    """I6: the other table is not the view, even with the same rows."""
    epoch(backfill)
    begun = verifier.begin_verification(backfill, requester=VERA)
    properties = DeltaTable(backfill.job.materialized_view).metadata().configuration
    DeltaTable.create(
        backfill.job.materialized_view,
        ORDERS,
        mode="overwrite",
        configuration={"backfill.job": "x"},
        raise_if_key_not_exists=False,
    )
    with pytest.raises(MaterializedViewError, match="is no longer the view of job paid_orders"):
        verifier.next_step(backfill, begun, CountingEngine())
    shutil.rmtree(backfill.job.materialized_view)
    DeltaTable.create(backfill.job.materialized_view, ORDERS, configuration=properties, raise_if_key_not_exists=False)
    with pytest.raises(MaterializedViewError, match="is no longer the view of job paid_orders"):
        verifier.next_step(backfill, begun, CountingEngine())


def test_a_view_of_another_incarnation_is_not_compared(backfill):
    """I6: it is the same table, but other jobs may have written to it since."""
    epoch(backfill)
    begun = verifier.begin_verification(backfill, requester=VERA)
    DeltaTable(backfill.job.materialized_view).alter.set_table_properties(
        {"backfill.incarnation": "another"}, raise_if_not_exists=False
    )
    watching = Watching()
    with pytest.raises(MaterializedViewError, match="is no longer the view of job paid_orders"):
        verifier.next_step(backfill, begun, watching)
    assert watching.compared == []


def test_a_view_that_is_replaced_while_it_is_compared_is_refused(backfill):
    """I6."""
    epoch(backfill)

    def replace() -> None:
        shutil.rmtree(backfill.job.materialized_view)
        DeltaTable.create(backfill.job.materialized_view, ORDERS)

    with pytest.raises(MaterializedViewError):
        verifier.verify_job(backfill, engine=lambda: Watching(replace), requester=VERA)
    assert backfill.verifications.all()[0].compared == ()
    with pytest.raises(MaterializedViewError):
        verifier.begin_verification(backfill, requester=VERA, anew=True)


def test_an_upstream_that_is_replaced_while_it_is_compared_is_refused(backfill, orders):
    """I6: rows of the new table say nothing about the table that the job was created on."""
    epoch(backfill)

    class Replacing(CountingEngine):
        def compare(self, *arguments: Any) -> Any:
            shutil.rmtree(orders.path)
            DeltaTable.create(orders.path, ORDERS, configuration=CHANGE_DATA_FEED)
            return super().compare(*arguments)

    with pytest.raises(UpstreamReplacedError):
        verifier.compare_now(backfill, Replacing())
    shutil.rmtree(orders.path)
    with pytest.raises(VerificationFailedError, match="the view cannot be verified"):
        verifier.compare_now(backfill, CountingEngine())


# --- versions that are gone -----------------------------------------------------------------------


GONE = [VersionGoneError("version 0 is gone"), ChangeFeedGapError("log is gone"), DataFileError("file is gone")]


def resume(backfill: Backfill, engine: CountingEngine):
    return verifier.verify_job(backfill, engine=lambda: engine, requester=VERA, steps=2)


@pytest.mark.parametrize("error", GONE, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("steps_done", [0, 1])
def test_a_verification_of_versions_that_are_gone_begins_again(backfill, orders, error, steps_done, caplog):
    """Resuming it would fail for ever, because the pinned versions do not come back."""
    epoch(backfill)
    begun = verifier.begin_verification(backfill, requester=VERA, steps=2)
    for _ in range(steps_done):
        begun = verifier.next_step(backfill, begun, CountingEngine())
    orders.add(20)
    epoch(backfill)
    found = resume(backfill, Forgetful(0, error))
    assert (found.pinned.number, found.pinned.epoch, found.pinned.upstream_version.number, found.equal) == (
        2,
        2,
        1,
        True,
    )
    assert len(found.compared) == 2, "nothing is kept from the other versions"
    (said,) = [record.getMessage() for record in caplog.records if "verification" in record.name]
    assert "verification 1 of job paid_orders, of epoch 1, can no longer be finished" in said
    assert said.endswith(f"of epoch 2: {error}")


@pytest.mark.parametrize("error", GONE, ids=lambda error: type(error).__name__)
def test_files_that_are_gone_at_the_newest_versions_too_are_an_error(backfill, error):
    epoch(backfill)
    verifier.begin_verification(backfill, requester=VERA, steps=2)
    for _ in range(2):
        with pytest.raises(type(error), match="is gone"):
            resume(backfill, Forgetful(0, error))
    assert len(backfill.verifications.all()) == 1


def test_a_verification_that_just_began_does_not_begin_again(backfill, orders):
    epoch(backfill)
    verifier.begin_verification(backfill, requester=VERA, steps=2)
    orders.add(20)
    epoch(backfill)

    class NothingLeft(CountingEngine):
        def compare(self, *_: Any) -> Any:
            raise VersionGoneError("everything is gone")

    with pytest.raises(VersionGoneError):
        resume(backfill, NothingLeft())
    assert [found.pinned.epoch for found in backfill.verifications.all()] == [2, 1]


def test_a_verification_is_resumed_after_other_failures(backfill, orders):
    epoch(backfill)
    verifier.begin_verification(backfill, requester=VERA, steps=2)
    orders.add(20)
    epoch(backfill)
    with pytest.raises(VerificationFailedError):
        resume(backfill, Forgetful(0, VerificationFailedError("try again")))
    assert resume(backfill, CountingEngine()).pinned.number == 1
