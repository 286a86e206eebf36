"""The class of a change of a job's definition, from the two definitions alone."""

from __future__ import annotations

from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.job.definition_change import ChangeKind, DefinitionChange
from airflow_backfill_provider.core.refresh import Refresh
from airflow_backfill_provider.shapes import query_of, shape_of
from airflow_backfill_provider.shapes.query_text import says_the_same

CHANGEABLE = frozenset({"query", "refresh", "star", "cut_over", "cut_over_timeout_hours"})
"""The fields of a definition that a view can follow without a rebuild."""


def change_of(before: BackfillJob, after: BackfillJob) -> DefinitionChange:
    """
    Return how a definition differs from the one that the view has.

    :param before: the definition that the view has.
    :param after: the definition that it gets, with the same locations for tables that a catalog names.
    """
    if (one := shape_of(before).name) != (other := shape_of(after).name):
        return _everything(f"the view is of another kind: its shape was {one} and would be {other}")
    old, new = before.definition(), after.definition()
    differing = sorted(name for name in {*old, *new} if old.get(name) != new.get(name))
    if others := [name for name in differing if name not in CHANGEABLE]:
        return _everything(f"another {', '.join(others)}")
    if not says_the_same(before.query, after.query):
        if before.keep.keeps_former_rows:
            return _everything(f"the view keeps former rows (keep: {before.keep}), and these are of the former query")
        return query_of(before).difference_to(query_of(after))
    if "refresh" in differing:
        was, now = (Refresh(job.refresh).value for job in (before, after))
        return DefinitionChange(kind=ChangeKind.TECHNIQUE, reason=f"refresh was {was} and is {now}")
    if not differing:
        text = "the definition is the same"
    elif "query" in differing:
        text = "only blanks and comments of the query differ"
    elif "star" in differing:
        text = f"the query is the same, and its stars {after.star} what comes to the upstreams from now on"
    else:
        text = f"only {', '.join(differing)} differs, which says how the next cut-over is done"
    return DefinitionChange(kind=ChangeKind.NOTHING, reason=text)


def _everything(reason: str) -> DefinitionChange:
    return DefinitionChange(kind=ChangeKind.EVERYTHING, reason=reason)
