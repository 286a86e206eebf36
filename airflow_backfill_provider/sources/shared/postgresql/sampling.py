"""How much of a table is read to learn how its keys are distributed."""

from __future__ import annotations

_MOST_PAGES = 10_000
"""Beyond this, a larger sample hardly cuts a table more evenly."""

_FEWEST_PAGES = 1_000
"""With so many, the parts that a table is cut into differ by a few hundredths of it."""

_SHARE = 0.05
"""The rows are read again afterwards, and each row should be read about once."""


def sampled_percent(pages: int) -> float | None:
    """
    Return the percentage of a table's pages that a sample reads; ``None`` for all.

    :param pages: the pages of the table.
    """
    sampled = min(max(_FEWEST_PAGES, round(pages * _SHARE)), _MOST_PAGES)
    return None if pages <= sampled else 100.0 * sampled / pages
