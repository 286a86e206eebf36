"""A topic that is a job's upstream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_backfill_provider.core.epoch.settings import ResolvedUpstream
from airflow_backfill_provider.sources.description import UpstreamDescription
from airflow_backfill_provider.sources.kafka.columns import RecordFormats


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaDescription(UpstreamDescription):
    """
    A topic.

    :param formats: the formats of its records.
    """

    formats: RecordFormats

    @property
    def pinned(self) -> Mapping[str, str]:
        """The formats: a file may be edited, and a registry's subject may get a new version."""
        return self.formats.pinned

    def differences_from(self, upstream: ResolvedUpstream) -> list[str]:
        """Return nothing: the types of the columns follow from what a job pinned."""
        del upstream
        return []
