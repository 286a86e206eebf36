"""What an approval covers: one definition, as of one incarnation."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.approval import Approval
from airflow_backfill_provider.core.job.definition import BackfillJob
from tests.builders import job_fields


def job(**changes) -> BackfillJob:
    return BackfillJob(**job_fields(**changes))


@pytest.mark.parametrize(("approved", "now"), [("", ""), ("", "a"), ("a", "a")])
def test_the_same_definition_is_approved_also_if_it_was_created_since(approved, now):
    Approval.of(job(), approved).require(job(), now)


@pytest.mark.parametrize(
    "changes",
    [
        {"query": "SELECT 1 AS one FROM upstream"},
        {"materialized_view": "/lake/elsewhere"},
        {"rate_limit": 7},
        {"paused": True},
        {"name": "another"},
    ],
)
def test_another_definition_is_refused(changes):
    """With other first settings, the plan that was shown is another one, too."""
    with pytest.raises(InvalidJobError, match="its definition has changed since it was approved; trigger a new"):
        Approval.of(job(), "").require(job(**changes), "")


@pytest.mark.parametrize("now", ["", "b"])
def test_another_incarnation_is_refused(now):
    with pytest.raises(InvalidJobError, match="it was removed or rebuilt since it was approved"):
        Approval.of(job(), "a").require(job(), now)
