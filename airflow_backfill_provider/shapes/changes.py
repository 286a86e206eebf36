"""The changes of a window, as an epoch hands them to the writer of a shape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from airflow_backfill_provider.spark.net_changes import MeasuredChanges


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """
    The changes of a window that apply to the view, checked and not yet written.

    :param net: net changes; see :func:`~airflow_backfill_provider.spark.net_changes.net_changes`. Of several upstreams,
        those of the one that leads, which may have none.
    :param measured: the number of these, and their properties.
    :param versions: of a job that keeps former rows, the same changes by version; see
        :func:`~airflow_backfill_provider.spark.net_changes.changes_by_version`.
    :param images: all images of the changed rows of upstreams that are read whole, by their names; only of those that
        have changes. A row that changed twice has four. They are not netted: of a key that two rows had for some time,
        no change is the net one.
    :param further: the net changes of upstreams that lead further branches, by their names; only of those that have
        any.
    """

    net: DataFrame
    measured: MeasuredChanges
    versions: DataFrame | None = None
    images: Mapping[str, DataFrame] = field(default_factory=dict)
    further: Mapping[str, DataFrame] = field(default_factory=dict)
