"""
Offsets of a topic: one for each of its partitions, and their sum first.

A partition is a split. Its offsets never go back as long as the topic is the same; the distance of two sums counts gaps
between records, too.
"""

from __future__ import annotations

from airflow_backfill_provider.sources.split_offsets import ends_of, offset_of, window

__all__ = ["ends_of", "offset_of", "window"]
