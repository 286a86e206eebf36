"""Polls a topic for new records."""

from __future__ import annotations

import datetime as dt
from collections.abc import Hashable

from airflow_backfill_provider.core.errors import UpstreamNotFoundError
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.sources.kafka.topic import Topic
from airflow_backfill_provider.sources.split_offsets import offset_of
from airflow_backfill_provider.sources.watch import SourceWatch


class KafkaWatch(SourceWatch):
    """
    Polls a topic.

    :param topic: the topic.
    """

    def __init__(self, topic: Topic) -> None:
        self._topic = topic
        self._newest: Offset | None = None
        self._seen_at: dt.datetime | None = None

    def look(self) -> tuple[Offset | None, Hashable]:
        """Return the newest offset, and the topic's id."""
        try:
            state = self._topic.state()
        except UpstreamNotFoundError:
            return None, None
        newest = offset_of(state.ends)
        if newest != self._newest:
            self._newest, self._seen_at = newest, dt.datetime.now(dt.UTC)
        return newest, state.topic_id

    def seen_at(self, offset: Offset) -> dt.datetime:
        """Return when the newest offset was found."""
        if self._seen_at is None or offset != self._newest:
            raise UpstreamNotFoundError(f"the watch of topic {self._topic.name} has not found offset {offset}")
        return self._seen_at
