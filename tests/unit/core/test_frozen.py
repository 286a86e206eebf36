"""Records are values."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.epoch_record import EpochCommit, EpochReport, GivenUpEpoch
from airflow_backfill_provider.core.epoch.failures import EpochFailure, GivenUp
from airflow_backfill_provider.core.frozen import Frozen
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.core.scan.table_version import TableVersions
from airflow_backfill_provider.core.status.differences import DifferingKey
from tests.builders import barrier_of, commit_of, report_of


@pytest.mark.parametrize("record", [barrier_of(), commit_of(barrier_of()), report_of(barrier_of(), 0)])
def test_a_record_with_a_field_of_another_version_is_refused(record):
    """I6: a record of a newer package is not read in part."""
    with pytest.raises(ValidationError, match="new_field"):
        type(record)(**record.model_dump(), new_field=1)


def test_a_record_cannot_be_changed_and_equals_another_one_with_its_values():
    with pytest.raises(ValidationError, match="frozen"):
        barrier_of().epoch = 2
    assert barrier_of() == barrier_of()
    assert barrier_of() != barrier_of(2)


@pytest.mark.parametrize(
    "record",
    [
        Barrier,
        DifferingKey,
        EpochCommit,
        EpochFailure,
        EpochReport,
        GivenUp,
        GivenUpEpoch,
        Requester,
        TableVersions,
    ],
)
def test_every_record_of_a_control_table_is_frozen(record):
    assert issubclass(record, Frozen)
    assert (record.model_config["frozen"], record.model_config["extra"]) == (True, "forbid")
