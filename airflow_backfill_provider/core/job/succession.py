"""
How a rebuild takes the place of a view that is still served.

The rebuild grows as a job of its own beside the view, and hands its rows over when it is finished. A view that is put
back begins with the rows of one of its own versions. Both begin with rows that are already there, and go on from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from airflow_backfill_provider.core.frozen import Frozen
from airflow_backfill_provider.core.job.adoption import Adopted
from airflow_backfill_provider.core.scan.offset import HistoryPoint


class Successor(Frozen):
    """
    A rebuild that grows while the former view is served.

    :param folder: the folder of its own tables; it is deleted afterwards.
    :param job: the job's definition from the handover on, as JSON.
    :param growing: the definition of the job that grows until then, as JSON: the same one with other locations.
    """

    folder: str
    job: dict[str, Any]
    growing: dict[str, Any]


class FirstRows(Frozen):
    """
    The rows that a view begins with: all rows of a table as of one version.

    :param point: the point of the upstream's history that the rows are as of.
    :param location: the table's canonical location.
    :param folder: the folder to delete once the view is finished; empty to delete nothing.
    :param others: the points of the upstreams beside the one that leads, by their names; empty for most jobs.
    :param adopted: what was found, if something else made the table; its files then become the view's.
    """

    point: HistoryPoint
    location: str
    version: int
    folder: str = ""
    others: Annotated[Mapping[str, HistoryPoint], Field(exclude_if=lambda found: not found)] = {}
    adopted: Annotated[Adopted | None, Field(exclude_if=lambda found: found is None)] = None
