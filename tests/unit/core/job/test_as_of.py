"""How a job's definition names a point of its upstream's history."""

from __future__ import annotations

import datetime as dt

import pytest
from pydantic import TypeAdapter, ValidationError

from airflow_backfill_provider.core.job.as_of import OLDEST, AsOf

POINT: TypeAdapter[int | dt.datetime | str] = TypeAdapter(AsOf)
NIGHT = dt.datetime(2026, 11, 28, 2, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (0, 0),
        (4711, 4711),
        ("oldest", OLDEST),
        ("2026-11-28T02:00:00Z", NIGHT),
        ("2026-11-28T03:00:00+01:00", NIGHT),
        (NIGHT, NIGHT),
    ],
)
def test_a_version_a_time_or_the_oldest(given, meant):
    found = POINT.validate_python(given)
    assert found == meant
    assert POINT.validate_python(POINT.dump_python(found, mode="json")) == meant


@pytest.mark.parametrize("given", [-1, True, 1.5, "42", "newest", "2026-11-28T02:00:00", dt.date(2026, 11, 28), None])
def test_anything_else_is_refused(given):
    with pytest.raises(ValidationError):
        POINT.validate_python(given)
