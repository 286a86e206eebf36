"""A job about a part of its upstream: some vnodes, or a range of keys."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest
import yaml

from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.job.restriction import KeyBounds
from tests.builders import job_fields, job_of, order_of
from tests.unit.core.job_refusals import refusal


@pytest.mark.parametrize(
    ("vnodes", "meant"), [([], {0, 1, 2, 3}), ([2], {2}), (["0-1", 3], {0, 1, 3}), (["0-3"], {0, 1, 2, 3})]
)
def test_a_job_is_about_the_vnodes_that_it_is_restricted_to(vnodes, meant):
    assert job_of(restrict_to={"vnodes": vnodes}).vnodes == meant


@pytest.mark.parametrize("vnodes", [[4], ["0-4"], ["3-1"], ["all"], [""], [-1]])
def test_a_vnode_that_the_job_does_not_have_is_refused(vnodes):
    assert "numbers from 0 to 3" in refusal(restrict_to={"vnodes": vnodes})


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ([5], ("5",)),
        (5, ("5",)),
        ("x", ("x",)),
        (["a", None, 3], ("a", None, "3")),
        ([True, False], ("true", "false")),
        ([b"\x00\xff"], ("00ff",)),
        ([dt.date(2024, 2, 29)], ("2024-02-29",)),
        ([dt.datetime.fromisoformat("2024-02-29T01:00:00.000001")], ("2024-02-29T01:00:00.000001",)),
        ([dt.datetime.fromisoformat("2024-02-29T01:00:00+01:00")], ("2024-02-29T00:00:00.000000Z",)),
        ([Decimal("1.50")], ("1.50",)),
    ],
)
def test_bounds_are_kept_as_text_however_they_are_written(written, kept):
    assert KeyBounds(after=written).after == kept
    assert KeyBounds(up_to=KeyBounds(up_to=written).up_to).up_to == kept


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("long", 5),
        ("string", "o'brien"),
        ("decimal(5,2)", Decimal("1.50")),
        ("date", dt.date(2024, 2, 29)),
        ("timestamp", dt.datetime(2024, 2, 29, tzinfo=dt.UTC)),
        ("timestamp_ntz", dt.datetime.fromisoformat("2024-02-29T01:00:00.000001")),
        ("binary", b"\x00\xff"),
        ("boolean", True),
        ("long", None),
    ],
)
def test_a_bound_is_read_back_in_the_types_of_the_key(kind, value):
    """YAML knows dates, timestamps and bytes."""
    bounds = BackfillJob(**yaml.safe_load(yaml.safe_dump(job_fields(restrict_to={"keys": {"after": [plain(value)]}}))))
    assert order_of(kind).decode(bounds.restrict_to.keys.after) == (value,)


def plain(value):
    return str(value) if isinstance(value, Decimal) else value
