"""What a comparison records of the keys that differ; comparing itself is tested on Spark."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.scan.keys import KeyField, KeyOrder
from airflow_backfill_provider.engine.differing_keys import encoded


@pytest.mark.parametrize(
    ("kind", "text", "recorded"),
    [
        ("date", "+10000-01-01", None),
        ("timestamp", "+10000-01-01T00:00:00.000000", None),
        ("string", "\ufffd", None),
        ("date", "2020-01-01", ("2020-01-01",)),
        ("string", None, (None,)),
    ],
)
def test_a_differing_key_that_cannot_be_written_down_is_left_to_its_vnode(kind, text, recorded):
    """I6: its repair would name another key; a step that has not all keys has its vnodes repaired."""
    assert encoded([text], KeyOrder((KeyField(name="k", type=kind),))) == recorded
