"""The change data feed of a finished view, which a job on the view reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from airflow_backfill_provider.core.scan.columns import CHANGE_FEED_COLUMNS

CHANGE_DATA_FEED = "delta.enableChangeDataFeed"


def feed_of_finished(given: Mapping[str, str], columns: Iterable[str]) -> dict[str, str]:
    """
    Return the properties that switch on the feed of a view when it is finished.

    They come with the commit that marks it as finished, so the feed has every later version.

    :param given: the table properties in the job's definition; if they name the feed, they decide.
    :param columns: the view's columns.
    """
    named = any(name.lower() == CHANGE_DATA_FEED.lower() for name in given)
    # Delta refuses the feed of a table with a column of the feed's own.
    impossible = CHANGE_FEED_COLUMNS.intersection(map(str.lower, columns))
    return {} if named or impossible else {CHANGE_DATA_FEED: "true"}
