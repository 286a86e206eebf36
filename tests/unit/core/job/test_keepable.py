"""Which jobs can keep former rows."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.definition import BackfillJob
from tests.builders import job_of

ORDERS = {"path": "/lake/orders", "key": ["id", "shop"]}
BY_STATUS = {**ORDERS, "distribution_key": ["id", "status"]}
EVENTS = {"path": "/lake/events", "append_only": True}
DATABASE = {"postgres": {"connection": "shop", "table": "public.orders", "key": ["id"]}}
TWO = {"o": ORDERS, "c": {"path": "/lake/customers", "key": ["id"]}}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"keep": "all"}, "keep: Input should be 'latest', 'deleted' or 'history'"),
        ({"query": "SELECT max(n) AS n FROM upstream", "refresh": "full"}, "a view of shape full does not keep"),
        ({"upstream": EVENTS, "query": "SELECT n FROM upstream"}, "an upstream of kind append_only have no versions"),
        ({"upstream": DATABASE}, "an upstream of kind postgres have no versions"),
        ({"upstream": BY_STATUS}, "upstream.distribution_key has status, so a row may move"),
        ({"valid_by": "epoch"}, "rows are kept by the upstream's versions, and not by epochs; set valid_by to version"),
        ({"keep": "latest", "valid_by": "commit_time"}, "valid_by: the view keeps no former rows; give keep, too"),
        ({"backfill_from": {"path": "/lake/old"}, "as_of": 3}, "the table of backfill_from does not say since when"),
        ({"query": "SELECT struct(*) AS s FROM upstream"}, r"query: with keep: history, \* cannot stand inside of an"),
        ({"query": "SELECT *, hash(*) AS h FROM upstream"}, r"query: with keep: history, \* cannot stand inside of an"),
    ],
)
def test_what_cannot_be_kept_exactly_is_refused_by_name(fields, said):
    """I6: before anything is written."""
    with pytest.raises(InvalidJobError, match=said):
        job_of(**{"upstream": ORDERS, "query": "SELECT id FROM upstream", "keep": "history", **fields})


GROUPS = {"upstream": ORDERS, "query": "SELECT status, count(*) AS n FROM upstream GROUP BY status"}
JOIN = {"upstreams": TWO, "query": "SELECT o.id, c.name FROM o JOIN c ON o.customer = c.id"}
UNION = {"upstreams": TWO, "query": "SELECT id FROM o UNION ALL SELECT id FROM c"}


def kept(**fields):
    return BackfillJob(**{"name": "kept", "materialized_view": "/lake/view", "keep": "history", **fields})


@pytest.mark.parametrize(
    ("fields", "valid_by"),
    [
        (GROUPS, "version"),
        ({**GROUPS, "valid_by": "epoch"}, "epoch"),
        ({**GROUPS, "valid_by": "commit_time"}, "commit_time"),
        (JOIN, "epoch"),
        (UNION, "epoch"),
        ({**JOIN, "keep": "deleted"}, "epoch"),
    ],
)
def test_groups_and_joins_keep_what_epochs_left(fields, valid_by):
    job = kept(**fields)
    assert job.valid_by == valid_by
    assert BackfillJob(**job.definition()) == job


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({**JOIN, "valid_by": "version"}, "several upstreams have no version in common; leave valid_by out"),
        ({**JOIN, "valid_by": "commit_time"}, "several upstreams have no version in common; leave valid_by out"),
        ({**JOIN, "refresh": "auto"}, "with refresh: auto an epoch may compute the whole view; leave refresh out"),
        ({**GROUPS, "as_of": 3}, "a view of shape group keeps what it was after each epoch, so .*; leave as_of out"),
        (
            {"upstream": EVENTS, "query": GROUPS["query"]},
            "changes of an upstream of kind append_only have no versions of a table",
        ),
        ({**JOIN, "backfill_from": {"path": "/lake/old"}, "as_of": "2026-11-28T02:00:00Z"}, "leave backfill_from out"),
    ],
)
def test_what_groups_and_joins_cannot_keep_is_refused_by_name(fields, said):
    with pytest.raises(InvalidJobError, match=f"^job: keep: history is not possible: .*{said}"):
        kept(**fields)


@pytest.mark.parametrize("strategy", ["auto", "snapshot", "no_shuffle", "arrangement"])
@pytest.mark.parametrize("keep", ["deleted", "history"])
def test_every_strategy_of_a_table_with_versions_keeps_former_rows(keep, strategy):
    job = job_of(upstream={**ORDERS, "distribution_key": ["shop"]}, keep=keep, strategy=strategy)
    assert job.definition()["keep"] == keep
    assert type(job)(**job.definition()) == job
