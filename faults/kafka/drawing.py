"""Draws a topic, and the jobs over it."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tests.integration.kafka.producers import COMPACTED

NO_JSON = "no json"
"""A value that is no JSON."""

LATE = '{"text": "late"}'
"""The value of a record whose timestamp is in microseconds."""

UNREADABLE = (
    NO_JSON,
    LATE,
    '{"text": "wide", "small": 70000}',
    '{"text": "long", "small": 1.5}',
    '{"text": "far", "at": "+57971-01-01T00:00:00Z"}',
    '{"text": "early", "at": "0000-06-01T00:00:00Z"}',
    '{"text": "led out", "at": "9999-12-31T23:59:59-10:00"}',
)
"""The values of records that no job in JSON can read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnQuery:
    """
    A query.

    :param text: its SQL.
    :param key: the view's columns with the partition and the offset.
    :param has: whether the view has a record, by its partition and its offset.
    """

    text: str
    key: tuple[str, str] = ("partition", "offset")
    has: Callable[[int, int], bool] = lambda _partition, _offset: True


_QUERIES = (
    DrawnQuery(text="SELECT partition, offset, {value} AS value FROM upstream"),
    DrawnQuery(text="SELECT {value} AS value FROM upstream", key=("__key_partition", "__key_offset")),
    DrawnQuery(text="SELECT offset AS place, {value} AS value, partition FROM upstream", key=("partition", "place")),
    DrawnQuery(
        text="SELECT partition, offset, {value} AS value FROM upstream WHERE offset % 3 <> 1",
        has=lambda _, offset: offset % 3 != 1,
    ),
    DrawnQuery(
        text="SELECT partition, offset, {value} AS value FROM upstream WHERE partition <> 0",
        has=lambda partition, _: partition != 0,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnJob:
    """
    A job.

    :param is_json: whether values are JSON, and those that are not become dead letters.
    :param fields: what else its definition has.
    """

    query: DrawnQuery
    is_json: bool
    fields: Mapping[str, Any]

    @property
    def text(self) -> str:
        """The query's text."""
        return self.query.text.format(value="value.text" if self.is_json else "CAST(value AS STRING)")


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnTopic:
    """
    A topic.

    :param partitions: the number at the beginning.
    :param settings: the broker's for the topic.
    :param jobs: the last one is created in the middle of the case.
    :param garbage: the share of records that no job in JSON can read.
    """

    partitions: int
    settings: Mapping[str, Any]
    jobs: tuple[DrawnJob, ...]
    garbage: float

    @property
    def is_compacted(self) -> bool:
        """Whether the broker removes records with a newer one of the same key."""
        return bool(self.settings)


def a_topic(case: int, chance: random.Random) -> DrawnTopic:
    """Draw a topic and its jobs; in every second case, some records cannot be read by the first job."""
    is_garbled = case % 2 == 0
    jobs = tuple(_a_job(chance) for _ in range(chance.choice([1, 2])))
    if is_garbled:
        jobs = (replace(jobs[0], is_json=True), *jobs[1:])
    has_json = any(job.is_json for job in jobs)
    return DrawnTopic(
        partitions=chance.choice([1, 2, 3, 5]),
        settings=COMPACTED if chance.random() < 0.4 else {},
        jobs=jobs,
        garbage=chance.choice([0.1, 0.5] if is_garbled else [0.0, 0.1, 0.5]) if has_json else 0.0,
    )


def _a_job(chance: random.Random) -> DrawnJob:
    vnodes = chance.choice([1, 2, 16])
    return DrawnJob(
        query=chance.choice(_QUERIES),
        is_json=chance.random() < 0.4,
        fields={
            "vnode_count": vnodes,
            "rate_limit": chance.choice([3, 20, 20, 100, None]),
            "parallelism": chance.randint(1, min(vnodes, 3)),
        },
    )
