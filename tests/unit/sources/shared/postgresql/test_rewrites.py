"""What tells that values were written anew, from looks at the catalog."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.sources.shared.postgresql.rewrites import Attribute, TableLook, lost_values

WRAP = 1 << 32


def look(*written_by, over_before=200, next_id=210, files=None):
    columns = [Attribute(number, f"c{number}", False, xid % WRAP) for number, xid in enumerate(written_by, 1)]
    return TableLook(
        table="7",
        relation="public.orders",
        over_before=over_before,
        next_id=next_id,
        attributes=columns,
        files={7: 70} if files is None else files,
    )


@pytest.mark.parametrize("begin", [0, WRAP - 150, 7 * WRAP - 105])
def test_only_what_was_written_since_the_last_look_is_touched(begin):
    """Transaction ids of 32 bits begin again at their end."""
    found = look(begin + 99, begin + 100, begin + 209, over_before=begin + 200, next_id=begin + 210)
    assert found.touched(begin + 100) == ["c2", "c3"]
    assert found.touched(begin + 210) == []


def test_a_dropped_column_is_not_touched():
    found = look()
    dropped = TableLook(
        **{name: getattr(found, name) for name in ("table", "relation", "over_before", "next_id", "files")},
        attributes=[Attribute(1, "gone", True, 150)],
    )
    assert dropped.touched(100) == []


@pytest.mark.parametrize(
    ("written_by", "known"),
    [
        # Not touched, although the file is another one.
        ([99], {7: 69}),
        # Touched, and the same file; or nothing is known of the file, as of a new partition.
        ([150], {7: 70}),
        ([150], {}),
    ],
)
def test_one_sign_alone_is_none(written_by, known):
    """And no row is asked about: there is no connection."""
    assert lost_values(None, look(*written_by), last_look=100, file_at_last_look=known.get) == []


def test_a_version_changes_with_used_columns_and_files():
    version = look(1, 2).version({"c1"})
    assert version == look(1, 3).version({"c1"})
    assert version != look(4, 2).version({"c1"})
    assert version != look(1, 2, files={7: 71}).version({"c1"})
    assert look().identity != look(files={7: 71}).identity
