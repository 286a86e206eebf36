"""Whether a publication still has what it had."""

from __future__ import annotations

from airflow_backfill_provider.sources.postgres.published import Published
from airflow_backfill_provider.sources.shared.change_log.changes import LoggedKind

NOW = Published("shop", {"": 1, "16384": 2, "16390": 3})


def test_the_same_is_no_news():
    known = {"": 1, "16384": 2, "16390": 3, "17000": 9}
    assert NOW.news(known.get) == {}
    assert list(NOW.differences(known.get)) == []


def test_what_was_not_published_before_is_only_noted():
    """Another job adds its table to the publication that jobs share."""
    known = {"": 1, "16384": 2}
    assert NOW.news(known.get) == {"16390": 3}
    assert list(NOW.differences(known.get)) == []
    assert NOW.news({}.get) == NOW.identities


def test_a_table_that_left_and_came_back_has_lost_changes():
    (row,) = NOW.differences({"": 1, "16384": 7, "16390": 3}.get)
    assert (row["table"], row["kind"]) == ("16384", LoggedKind.PART_REMOVED)
    assert "not in publication shop, to which it was added again" in row["new"]["text"]


def test_after_a_publication_was_altered_changes_of_all_tables_may_be_missing():
    (row,) = NOW.differences({"": 7, "16384": 2, "16390": 3}.get)
    assert (row["table"], row["kind"]) == ("", LoggedKind.GAP)


def test_a_publication_that_is_gone_says_nothing():
    gone = Published("shop")
    assert (gone.news({"": 1}.get), list(gone.differences({"": 1}.get))) == ({}, [])


def test_only_the_publication_and_the_table_itself_count_for_a_table():
    other = Published("shop", {"": 1, "16384": 2, "16390": 9})
    assert not NOW.differs_from(other, "16384")
    assert NOW.differs_from(other, "16390")
    assert NOW.differs_from(Published("shop", {**NOW.identities, "": 9}), "16384")
    assert NOW.differs_from(Published("shop"), "16384")
