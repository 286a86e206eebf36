"""Positions in PostgreSQL's log, as it writes them and as offsets."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.scan.offset import BEGINNING, Offset
from airflow_backfill_provider.sources.shared.postgresql.lsn import lsn_of, lsn_text, parse_lsn


@pytest.mark.parametrize(
    ("text", "lsn"),
    [
        ("0/0", 0),
        ("0/16B3748", 0x16B3748),
        ("0/FFFFFFFF", 2**32 - 1),
        ("1/0", 2**32),
        ("16/B374D848", 0x16B374D848),
        ("FFFFFFFF/FFFFFFFF", 2**64 - 1),
    ],
)
def test_a_position_is_a_number_of_bytes(text, lsn):
    assert parse_lsn(text) == lsn
    assert lsn_text(lsn) == text


def test_small_letters_and_zeros_in_front_are_read():
    assert parse_lsn("00000016/b374d848") == parse_lsn("16/B374D848")


@pytest.mark.parametrize(
    "text",
    ["", "0", "/", "0/", "/0", "0/G", "0/123456789", "123456789/0", "-1/0", "0/0 ", "0/0\n", "0/0/0", "0x0/0", "٣/0"],
)
def test_anything_else_is_refused(text):
    with pytest.raises(ValueError, match="is not a log sequence number such as 0/16B3748"):
        parse_lsn(text)


def test_an_offset_is_a_position_and_the_beginning_is_before_all():
    assert lsn_of(Offset(5)) == 5
    assert lsn_of(BEGINNING) == 0


@pytest.mark.parametrize("other", [Offset("0/5"), Offset((5, 6)), Offset(())])
def test_the_offset_of_another_source_is_refused(other):
    with pytest.raises(ValueError, match="is not a log sequence number"):
        lsn_of(other)
