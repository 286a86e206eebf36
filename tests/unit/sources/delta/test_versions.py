"""Versions of Delta tables as offsets, and back."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.scan.offset import BEGINNING, Offset
from airflow_backfill_provider.sources.delta.versions import offset_of, version_of


@pytest.mark.parametrize("version", [-1, 0, 1, 2**40])
def test_a_version_is_read_back_from_its_offset(version):
    assert version_of(offset_of(version)) == version


def test_before_the_first_version_lies_the_beginning():
    assert offset_of(-1) == BEGINNING < offset_of(0)


@pytest.mark.parametrize("offset", [Offset("0/1A2B"), Offset((3, 4))], ids=str)
def test_an_offset_of_another_source_is_no_version(offset):
    with pytest.raises(TypeError, match="is not a version of a Delta table"):
        version_of(offset)
