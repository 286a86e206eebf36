"""PostgreSQL's arrays: whatever is written as PostgreSQL writes it is read back."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_backfill_provider.sources.postgres.arrays import array_as_json

_SPECIAL = frozenset('{}",\\ \t\n\r\v\f')

ELEMENTS = st.none() | st.text(st.sampled_from('nulNUL{}",\\ \n0aä😀'), max_size=6) | st.text(max_size=6)


def written(value):
    """Write an array, with as few quotes as PostgreSQL's ``array_out`` does."""
    if value is None:
        return "NULL"
    if isinstance(value, list):
        return "{" + ",".join(map(written, value)) + "}"
    if value and value.upper() != "NULL" and not _SPECIAL & set(value):
        return value
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


@st.composite
def arrays(draw):
    """Draw an array of up to three dimensions; all lists of a dimension are of the same length, as in PostgreSQL."""
    lengths = draw(st.lists(st.integers(1, 3), max_size=3))

    def fill(dimensions):
        if not dimensions:
            return draw(ELEMENTS)
        return [fill(dimensions[1:]) for _ in range(dimensions[0])]

    return fill(lengths) if lengths else []


@given(arrays())
def test_a_written_array_is_read_back(array):
    assert json.loads(array_as_json(written(array))) == array


@given(arrays())
def test_quotes_that_are_not_necessary_change_nothing_but_null(array):
    def quoted(value):
        if isinstance(value, list):
            return "{" + ",".join(map(quoted, value)) + "}"
        return "NULL" if value is None else '"' + "".join(f"\\{character}" for character in value) + '"'

    assert json.loads(array_as_json(quoted(array))) == array


@given(arrays().filter(bool).map(written), st.data())
def test_an_array_that_is_cut_off_is_refused(text, data):
    with pytest.raises(ValueError, match="array"):
        array_as_json(text[: data.draw(st.integers(0, len(text) - 1))])


@given(st.text(st.sampled_from('{}",\\aN '), max_size=12))
def test_any_text_is_read_or_refused_with_no_other_error(text):
    with suppress(ValueError):
        assert isinstance(json.loads(array_as_json("{" + text)), list)
