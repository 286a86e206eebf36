"""An upstream that is the materialized view of another job, so that two jobs are a chain."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamView:
    """
    The view that a job reads, and the job that writes it, as the view's own table says.

    :param location: the view's location.
    :param job: the name of the job that writes it.
    :param incarnation: that job's incarnation whose rows the view has.
    :param state: the location of that job's control tables; empty if the view does not say, as one of an older package.
    :param is_finished: whether the view has all rows, as of one offset of its own upstream.
    :param keep: which rows it keeps, as its job's definition says it; empty if these are those of its query.
    """

    location: str
    job: str
    incarnation: str
    state: str
    is_finished: bool
    keep: str = ""
