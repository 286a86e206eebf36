"""The identity and the columns of a job's upstreams, which its settings pin when it is created."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

from airflow_backfill_provider.core.epoch.settings import OtherUpstream, ResolvedUpstream, UpstreamColumn
from airflow_backfill_provider.core.errors import InvalidJobError, StateLayoutError
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.job.keep import VALID_FROM, Keep
from airflow_backfill_provider.core.job.upstream_view import UpstreamView
from airflow_backfill_provider.core.job.upstreams import field_of
from airflow_backfill_provider.core.kinds import further_leads
from airflow_backfill_provider.core.scan.keys import KeyOrder
from airflow_backfill_provider.jobs.first_look import Seen
from airflow_backfill_provider.shapes import query_of, shape_of
from airflow_backfill_provider.shapes.several import QueryOverSeveral, QueryTable, over_tables
from airflow_backfill_provider.sources.compared_rows import require_few_rows
from airflow_backfill_provider.sources.description import UpstreamDescription


def resolve_upstream(
    job: BackfillJob, described: UpstreamDescription, others: Mapping[str, Seen] = MappingProxyType({})
) -> ResolvedUpstream:
    """
    Return the upstream's identity and the columns that the job uses; refuse columns that cannot work.

    :param described: the upstream, or the one that leads.
    :param others: the other ones, by their names.
    """
    all_described = {job.lead_name: described, **{name: found.described for name, found in others.items()}}
    for name, found in all_described.items():
        _require_columns(job, name, found)
    lead = job.lead_name
    _require_key_bounds(job, described.key_order(job.upstream.key))
    used = _used_columns(job, all_described)
    for name, found in all_described.items():
        if found.view is not None and found.view.keep:
            _require_chosen_rows(job, name, found.view, used[name])
    return ResolvedUpstream(
        **_pinned(described, used[lead] | _own(job, lead), required=described.required if job.upstreams else ()),
        others={
            name: OtherUpstream(
                **_pinned(seen.described, used[name] | _own(job, name), required=seen.described.required),
                point=seen.point,
                compared=_is_compared(job, name, seen.described),
            )
            for name, seen in others.items()
        },
    )


def require_changes_of_all(job: BackfillJob, upstream: ResolvedUpstream, seen: Mapping[str, Seen]) -> None:
    """
    Refuse several upstreams of which one does not record what the query needs to know of its changes.

    :param upstream: the columns that the job uses.
    :param seen: all of the job's upstreams, by their names; none if there is only one.
    """
    query = over_tables(query_of(job), job, upstream)
    if not isinstance(query, QueryOverSeveral) or not shape_of(job).needs_changes:
        return
    for name, found in seen.items():
        if name in upstream.others and upstream.others[name].compared:
            require_few_rows(found.source, found.described)
        else:
            found.require_changes(name, query.images().get(name, ()))


def _is_compared(job: BackfillJob, name: str, described: UpstreamDescription) -> bool:
    """Return whether an upstream beside the lead has no changes to read, so that its rows are compared."""
    return shape_of(job).needs_changes and bool(described.without_changes) and name not in further_leads(job)


def _require_chosen_rows(job: BackfillJob, name: str, view: UpstreamView, used: Collection[str]) -> None:
    """
    Refuse a job that reads a view with former rows as if it had only those of its query.

    :param used: the columns of the view that the query uses.
    """
    keep = Keep(view.keep)
    problems = []
    if keep is Keep.HISTORY and VALID_FROM not in {column.column for column in job.all_upstreams[name].key}:
        problems.append(f"several of them may have one key: add {VALID_FROM} to {_field(job, name, 'upstream.key')}")
    if not {*keep.columns} & {*used}:
        problems.append(f"the query takes all of them: read the present ones with WHERE {keep.is_present_in_sql}")
    if problems:
        raise InvalidJobError(
            f"{_field(job, name, 'upstream')}: {view.location} is the view of job {view.job} and keeps former rows "
            f"(keep: {keep}); {'; '.join(problems)}"
        )


def _used_columns(job: BackfillJob, described: Mapping[str, UpstreamDescription]) -> Mapping[str, frozenset[str]]:
    """Return the columns of each upstream that the query uses."""
    query = query_of(job)
    if not isinstance(query, QueryOverSeveral):
        names = list(described[job.lead_name].types)
        query.require_names(names)
        return {job.lead_name: frozenset(query.columns_of(names))}
    resolved = query.resolved(
        {
            name: QueryTable(
                key=tuple(column.column for column in job.all_upstreams[name].key),
                types=found.types,
                required=found.required,
            )
            for name, found in described.items()
        }
    )
    return {name: frozenset(resolved.used_columns().get(name, ())) for name in described}


def _own(job: BackfillJob, name: str) -> frozenset[str]:
    """Return the columns by which an upstream's rows are identified and distributed."""
    upstream = job.all_upstreams[name]
    return frozenset({*(column.column for column in upstream.key), *upstream.distribution_key})


def _pinned(described: UpstreamDescription, used: Collection[str], *, required: Collection[str]) -> dict[str, Any]:
    """
    Return what is pinned about a table whose columns are used.

    :param required: the columns that are never null, if that is pinned.
    """
    described.require_distinct(used)
    described.require_columns(used)
    return {
        "table_id": described.table_id,
        "columns": tuple(
            UpstreamColumn(
                name=name,
                type=kind,
                physical_name=described.physical_names.get(name),
                required=name in required,
            )
            for name, kind in described.types.items()
            if name in used
        ),
        "pinned": described.pinned_for(used),
    }


def _require_columns(job: BackfillJob, name: str, described: UpstreamDescription) -> None:
    """Refuse columns of a key that an upstream does not have, or that cannot be keys."""
    described.require_usable()
    upstream = job.all_upstreams[name]
    for field, chosen in (
        ("upstream.key", [column.column for column in upstream.key]),
        ("upstream.distribution_key", list(upstream.distribution_key)),
    ):
        for column in chosen:
            if column not in described.types:
                raise InvalidJobError(
                    f"{_field(job, name, field)}: {described.location} has no column {column!r}; it has "
                    f"{', '.join(described.types)}"
                )
    for key in described.key_order(upstream.key).fields:
        key.kind  # noqa: B018 - raises for a type that cannot be a key
    for column in upstream.distribution_key:
        if '"map"' in described.types[column]:
            raise InvalidJobError(
                f"{_field(job, name, 'upstream.distribution_key')}: column {column!r} holds maps, which Spark cannot "
                "hash; choose another"
            )


def _field(job: BackfillJob, name: str, field: str) -> str:
    return field_of(name, field) if job.upstreams else field


def _require_key_bounds(job: BackfillJob, order: KeyOrder) -> None:
    """Refuse bounds that are not keys of the upstream."""
    bounds = job.restrict_to.keys
    found = []
    for name, bound in (("after", bounds.after), ("up_to", bounds.up_to)):
        try:
            found.append(order.decode(bound))
        except StateLayoutError as error:
            raise InvalidJobError(f"restrict_to.keys.{name}: {error}") from None
    after, up_to = found
    if after is None or up_to is None:
        return
    # A shorter upper bound includes all keys that begin with it, also those after the lower bound.
    if (order.compare(after, up_to), len(up_to) >= len(after)) >= (0, True):
        raise InvalidJobError(
            f"restrict_to.keys: no key lies after {list(after)} and at or before {list(up_to)} in the key's order"
        )
