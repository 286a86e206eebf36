"""Offsets: ordered values that only their source understands."""

from __future__ import annotations

import itertools

import pytest
from pydantic import ValidationError

from airflow_backfill_provider.core.scan.offset import BEGINNING, HistoryPoint, Offset

IN_ORDER = {
    "versions": [BEGINNING, Offset(0), Offset(1), Offset(10)],
    "names": [BEGINNING, Offset("0/1A"), Offset("0/2")],
    "files and places": [
        BEGINNING,
        Offset((1, "a", 9)),
        Offset((1, "b", 0)),
        Offset((2, "a", 0)),
        Offset((10, "a", 0)),
    ],
}


@pytest.mark.parametrize("offsets", IN_ORDER.values(), ids=IN_ORDER.keys())
def test_offsets_of_one_form_are_in_order_and_lie_after_the_beginning(offsets):
    for earlier, later in itertools.combinations(offsets, 2):
        assert earlier < later
        assert later >= earlier != later
    assert max(reversed(offsets)) == offsets[-1]


@pytest.mark.parametrize("offset", [offset for offsets in IN_ORDER.values() for offset in offsets])
def test_an_offset_is_written_down_and_read_back(offset):
    """I2: a barrier is read back by another process."""
    assert Offset.model_validate_json(offset.model_dump_json()) == offset
    assert HistoryPoint.model_validate_json(HistoryPoint(offset=offset).model_dump_json()).offset == offset
    assert len({offset, Offset.model_validate_json(offset.model_dump_json())}) == 1


def test_a_version_is_written_as_a_number():
    assert (Offset(7).model_dump_json(), BEGINNING.model_dump_json(), str(Offset(7))) == ("7", "null", "7")
    assert (Offset(7).number, BEGINNING.number, Offset("7").number, Offset((7,)).number) == (7, -1, None, None)


@pytest.mark.parametrize(
    ("later", "earlier", "steps"),
    [
        (Offset(7), Offset(4), 3),
        (Offset(7), BEGINNING, 8),
        (Offset(4), Offset(7), 0),
        (Offset(4), Offset(4), 0),
        (Offset((900, 400, 500)), Offset((850, 400, 450)), 50),
        (Offset("b"), Offset("a"), 1),
    ],
)
def test_the_lag_is_what_the_source_counts(later, earlier, steps):
    assert later.distance_from(earlier) == steps


@pytest.mark.parametrize("value", [1.5, True, [1.5], {"a": 1}])
def test_other_values_are_no_offsets(value):
    with pytest.raises(ValidationError):
        Offset.model_validate(value)
