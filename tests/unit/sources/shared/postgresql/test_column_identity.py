"""What a column is, beyond its name and its type in Delta."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.sources.shared.postgresql.column_identity import (
    ColumnIdentity,
    identity_problems,
    pinned_identities,
    pinned_numbers,
)


def column(**changes):
    fields = {"number": 2, "declared": "json", "types": (114,), "labels": {"9": "sad 700"}, "fields": {"5.1": "23 -1"}}
    return ColumnIdentity(**fields | changes)


def problems(now):
    return identity_problems(pinned_identities({"a": column(), "b": column()}, frozenset({"a"})), {"a": now})


@pytest.mark.parametrize("same", [column(), column(declared="doc"), column(labels={"9": "sad 700", "10": "new 800"})])
def test_the_same_column_has_no_problem(same):
    """Another name of a type, and a label more, change no value."""
    assert problems(same) == []


@pytest.mark.parametrize(
    ("now", "message"),
    [
        (None, "column a is gone"),
        (column(number=3), "column a is another column now: it was dropped and added again, or renamed"),
        (column(types=(3802,), declared="jsonb"), "column a was json and is jsonb"),
        (column(labels={"9": "blue 800"}), "labels of the enum of column a were renamed or removed"),
        (column(labels={"9": "sad 801"}), "labels of the enum of column a were renamed or removed"),
        (column(labels={}), "labels of the enum of column a were renamed or removed"),
        (column(fields={"5.1": "23 -1", "5.2": "25 -1"}), "the composite type of column a has other fields"),
    ],
)
def test_another_column_is_told_by_what_it_became(now, message):
    assert problems(now) == [message]


def test_a_job_of_an_older_version_pinned_nothing():
    assert identity_problems({}, {"a": column()}) == []
    assert pinned_numbers({}) == {}
    assert pinned_numbers(pinned_identities({"a": column()}, frozenset({"a"}))) == {"a": "2"}
