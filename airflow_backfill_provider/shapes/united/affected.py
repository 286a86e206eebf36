"""The rows of one lead of a union that a window's changes affect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame

from airflow_backfill_provider.shapes.joined.affected import AffectedPlan
from airflow_backfill_provider.shapes.joined.affected_rows import leads_of_changes
from airflow_backfill_provider.sources.shared.by_key import column, without_keys
from airflow_backfill_provider.sources.shared.kept_rows import KEPT
from airflow_backfill_provider.spark.job_rows import JobRows
from airflow_backfill_provider.spark.net_changes import leaves_something, new_images


@dataclass(frozen=True, slots=True)
class AffectedRows:
    """
    The affected rows of a lead.

    :param keys: their keys, those of rows that are gone included.
    :param rows: the rows as of the window's end, with the used columns.
    :param are_looked_up: whether all rows of the lead were read again to find them.
    """

    keys: DataFrame
    rows: DataFrame
    are_looked_up: bool


def affected_rows(
    lead: JobRows,
    net: DataFrame | None,
    plans: Sequence[AffectedPlan],
    images: Mapping[str, DataFrame],
    ends: Mapping[str, DataFrame],
    rows: DataFrame,
    kept: ExitStack,
) -> AffectedRows | None:
    """
    Find the rows of a lead that its own changes affect, and those that changes of other roles lead to.

    :param net: the lead's own net changes; ``None`` if it has none.
    :param plans: how changes lead to it, in each of its branches.
    :param images: the images of the changed rows of the upstreams that are read whole, by their names.
    :param ends: all rows of these as of the ends of their windows.
    :param rows: the lead's rows that were read, as of the end of its window.
    :param kept: what found rows are kept for.
    :returns: ``None`` if no change affects it.
    """
    names = lead.key.names
    if net is not None:
        # A second row of a key may have come and gone, while the first one stayed.
        net = net.filter(leaves_something(lead))
    found = [kept.enter_context(leads_of_changes(plan, images, ends, rows)) for plan in plans]
    others = [_used(lead, leads) for leads in found if leads is not None]
    if not others:
        if net is None:
            return None
        return AffectedRows(net.select(*map(column, names)).distinct(), new_images(lead, net), are_looked_up=False)
    met = reduce(DataFrame.unionAll, others)
    if len(others) > 1:
        # A row that several branches lead to is there once; its key tells, and its values may not be comparable.
        met = met.dropDuplicates(list(names))
    if net is None:
        met = met.persist(KEPT)
        kept.callback(met.unpersist)
        return AffectedRows(met.select(*map(column, names)), met, are_looked_up=True)
    # Those that changed themselves are known as of the window's end.
    changed = net.select(*map(column, names)).distinct()
    met = without_keys(met, changed, names).persist(KEPT)
    kept.callback(met.unpersist)
    keys = changed.unionAll(met.select(*map(column, names)))
    return AffectedRows(keys, new_images(lead, net).unionAll(met), are_looked_up=True)


def _used(lead: JobRows, rows: DataFrame) -> DataFrame:
    return rows.select(*map(column, lead.columns))
