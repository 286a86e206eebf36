"""What a definition may say of a table that becomes the view, and what a sample says of all vnodes."""

from __future__ import annotations

import datetime as dt
import itertools
import json

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.adoption import Adopted, most_differing
from airflow_backfill_provider.core.job.definition import BackfillJob

NIGHTLY = {"path": "/lake/nightly"}


def job(**fields):
    given = {
        "name": "paid",
        "upstream": {"path": "/lake/orders", "key": ["id"]},
        "materialized_view": "/lake/paid",
        "query": "SELECT * FROM upstream",
        "vnode_count": 8,
        "backfill_from": NIGHTLY,
        "as_of": 3,
        **fields,
    }
    return BackfillJob(**{name: value for name, value in given.items() if value is not None})


@pytest.mark.parametrize("as_of", [3, "2026-11-28T02:00:00+01:00", dt.datetime(2026, 11, 28, 1, tzinfo=dt.UTC)])
def test_a_definition_is_the_same_after_it_was_written_as_json(as_of):
    defined = job(as_of=as_of)
    again = BackfillJob(**json.loads(json.dumps(defined.model_dump(mode="json"))))
    assert again == defined
    assert again.definition() == defined.definition()
    assert again.as_of in {3, dt.datetime(2026, 11, 28, 1, tzinfo=dt.UTC)}


def test_other_jobs_have_neither_field():
    plain = job(backfill_from=None, as_of=None).model_dump(mode="json")
    assert not {"backfill_from", "as_of"} & plain.keys()
    assert job().computed().model_dump(mode="json") == plain


def test_a_table_is_adopted_in_place_where_the_view_lies():
    assert job(backfill_from={"path": "/lake/x/../paid/"}).adopts_in_place
    assert not job().adopts_in_place


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"as_of": None}, "as_of: is required with backfill_from"),
        ({"backfill_from": None}, "as_of: says what the table of backfill_from shows"),
        ({"as_of": "2026-11-28 02:00:00"}, "with its zone"),
        ({"as_of": "yesterday"}, "must be a version of the upstream"),
        ({"as_of": True}, "must be a version of the upstream"),
        ({"as_of": -1}, "versions begin with 0"),
        ({"backfill_from": {"path": "/lake/nightly", "verison": 3}}, "allowed are path, version, sample, repair"),
        ({"backfill_from": {"path": "nightly"}}, "relative"),
        ({"backfill_from": {"path": "/lake/nightly", "sample": 9}}, "the job has 8 vnodes"),
        ({"backfill_from": {"path": "/lake/orders"}}, "give each its own folder"),
        ({"backfill_from": {"path": "/lake/paid/old"}}, "give each its own folder"),
        ({"restrict_to": {"vnodes": [0]}}, "leave restrict_to out"),
        ({"refresh": "full"}, "leave backfill_from out"),
        (
            {
                "materialized_view": "prod.sales.paid",
                "view_path": "/lake/nightly",
                "state": "/lake/state",
            },
            "is its location",
        ),
        (
            {
                "upstream": None,
                "upstreams": {
                    "o": {"path": "/lake/orders", "key": ["id"]},
                    "c": {"path": "/lake/customers", "key": ["id"]},
                },
                "query": "SELECT o.id, c.name FROM o JOIN c ON o.customer = c.id",
            },
            "give a time",
        ),
    ],
)
def test_what_cannot_be_adopted_is_refused_by_its_field(fields, message):
    with pytest.raises(InvalidJobError, match=message):
        job(**fields)


@pytest.mark.parametrize(("vnodes", "sample"), [(6, 1), (6, 2), (8, 4), (9, 8), (5, 5)])
def test_more_differing_vnodes_than_a_sample_allows_would_have_been_hit(vnodes, sample):
    """Counted out: of all samples, at least the share of the confidence hits one of the differing vnodes."""
    allowed = most_differing(vnodes, sample, 0.75)
    samples = list(itertools.combinations(range(vnodes), sample))

    def share_of_hits(differing):
        return sum(1 for chosen in samples if min(chosen) < differing) / len(samples)

    assert all(share_of_hits(differing) >= 0.75 for differing in range(allowed + 1, vnodes + 1))
    assert allowed == 0 or share_of_hits(allowed) < 0.75


def test_a_sample_is_no_proof_of_equality():
    assert Adopted(compared=8, vnodes=8).is_equal
    assert not Adopted(compared=7, vnodes=8).is_equal
    assert not Adopted(compared=8, vnodes=8, differing=1).is_equal
