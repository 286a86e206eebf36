"""
The definition of a backfill job: one object for DAG files, YAML and the command line.

A definition is validated here as far as possible without reading a table. The rest is validated when the job is
created (:func:`airflow_backfill_provider.jobs.creation.create_job`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Self

from pydantic import (
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    StrictBool,
    StrictInt,
    StrictStr,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)

from airflow_backfill_provider.core import kinds, location
from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.adoption import require_possible
from airflow_backfill_provider.core.job.beginning import BegunView
from airflow_backfill_provider.core.job.job_file import read_yaml
from airflow_backfill_provider.core.job.job_problems import explained
from airflow_backfill_provider.core.job.keep import ValidBy
from airflow_backfill_provider.core.job.keepable import require_keepable
from airflow_backfill_provider.core.job.rate_limit import (
    AskedRate,
    PaceField,
    RateLimitField,
    TargetField,
    require_target_of_auto,
)
from airflow_backfill_provider.core.job.restriction import Restriction
from airflow_backfill_provider.core.job.sql import RELATION
from airflow_backfill_provider.core.job.table_name import canonical_table_name, is_like_name
from airflow_backfill_provider.core.job.table_properties import require_allowed_properties
from airflow_backfill_provider.core.job.upstream import UpstreamDefinition
from airflow_backfill_provider.core.job.upstreams import (
    UpstreamField,
    by_field,
    lead_of,
    require_different_tables,
    require_names,
    with_lead,
)
from airflow_backfill_provider.core.job.visibility import Visibility
from airflow_backfill_provider.core.refresh import Refresh
from airflow_backfill_provider.core.scan.vnodes import parse_vnodes, require_parallelism
from airflow_backfill_provider.core.shape_limits import ShapeLimits

MAX_VNODE_COUNT = 32_768

INITIAL_SETTINGS = ("paused", "rate_limit", "target_epoch_seconds", "max_rows_per_second", "parallelism")
"""Fields that only initialize the job's settings; they may be edited at any time."""

AUTO = "auto"
"""Leaves the choice of the strategy to the job's creation."""

JobName = Annotated[str, StringConstraints(strict=True, pattern=r"^[a-z0-9_]+$", max_length=100)]
VnodeCount = Annotated[StrictInt, Field(ge=1, le=MAX_VNODE_COUNT)]
Parallelism = Annotated[StrictInt, Field(ge=1, le=MAX_VNODE_COUNT)]


class BackfillJob(BegunView):
    """
    The definition of a materialized view over a changing table, and of how to create it.

    :param name: identifies the job, its DAG and its transactions; lower-case letters, digits and ``_``.
    :param upstream: the table to read; see :class:`~airflow_backfill_provider.core.job.upstream.UpstreamDefinition`.
        Of a job with ``upstreams``, the one that leads.
    :param upstreams: in place of ``upstream``: the tables that the query reads, each by its name in the query.
    :param lead: the name of the table whose rows are read in chunks; by default the first one in the query's FROM.
    :param materialized_view: the location of the materialized view's Delta table, or its full name in a catalog,
        ``catalog.schema.table``. Under the name, the view is registered in the catalog.
    :param refresh: what an epoch computes when rows changed: ``incremental``, the default, what they touch; ``full``
        the whole view, also of queries that cannot be kept up to date otherwise; ``auto`` either, for views of groups
        and of several upstreams;
        see :class:`~airflow_backfill_provider.core.refresh.Refresh`.
    :param query: Spark SQL over the relation ``upstream``, of one of the registered shapes.
    :param strategy: how history is read; ``auto`` chooses when the job is created, by the statistics of the upstream's
        files.
    :param vnode_count: number of virtual nodes; fixed once the job is created.
    :param paused: whether the job starts paused, so that its epochs read no snapshot until it is resumed. After its
        creation, the job is paused and resumed through its settings.
    :param rate_limit: initial rate limit, in snapshot rows per epoch; ``None`` is unlimited, 0 reads none, ``auto``
        follows the measured speed. After its creation, the job is throttled through its settings, as with the next two.
    :param target_epoch_seconds: how long an epoch should take with ``auto``; by default 60.
    :param max_rows_per_second: the most snapshot rows per second of a run of several epochs; by default unlimited.
    :param parallelism: initial number of parallel task runs that share the vnodes, if the strategy divides vnodes.
        After its creation, the job is rescaled through its settings.
    :param visibility: when changes of rows that the view already has reach the view; ``on_finish`` is faster, see
        :class:`~airflow_backfill_provider.core.job.visibility.Visibility`. By default ``every_epoch``, unless the
        strategy or the query's shape supports only the other, or the query is a join and the job names no strategy.
    :param keep_arrangement: keep the arrangement once the view is finished, instead of dropping it.
    :param restrict_to: the part of the upstream that the job reads; by default all of it.
    :param view_path: the location of a view that is named in a catalog; by default in the folder of its schema.
    :param state: folder of the control tables; by default ``_backfill/<name>`` beside the materialized view. Required
        if the view is named in a catalog without ``view_path``.
    :param table_properties: Delta table properties of the materialized view. Unless they name
        ``delta.enableChangeDataFeed``, the view gets it when it is finished.
    :raises InvalidJobError: naming each wrong field and what is allowed.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: JobName
    upstream: UpstreamField
    upstreams: Annotated[dict[StrictStr, UpstreamField], Field(exclude_if=lambda given: not given)] = Field(
        default_factory=dict
    )
    lead: Annotated[StrictStr, Field(exclude_if=lambda lead: not lead)] = ""
    materialized_view: StrictStr
    view_path: Annotated[StrictStr, Field(exclude_if=lambda path: not path)] = ""
    refresh: Annotated[Refresh, Field(exclude_if=lambda refresh: refresh is Refresh.INCREMENTAL)] = Refresh.INCREMENTAL
    query: StrictStr
    strategy: StrictStr = AUTO
    vnode_count: VnodeCount = 256
    paused: StrictBool = False
    rate_limit: RateLimitField = None
    target_epoch_seconds: TargetField | None = None
    max_rows_per_second: PaceField | None = None
    parallelism: Parallelism = 1
    visibility: Visibility = Visibility.EVERY_EPOCH
    keep_arrangement: StrictBool = False
    restrict_to: Restriction = Restriction()
    state: StrictStr = ""
    table_properties: dict[StrictStr, StrictStr] = Field(default_factory=dict)

    def __init__(self, /, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            problems = explained(error, fields, BackfillJob.field_names())
            raise InvalidJobError("; ".join(problems)) from None

    @model_validator(mode="before")
    @classmethod
    def _one_or_several(cls, fields: Any) -> Any:
        return with_lead(fields)

    @model_serializer(mode="wrap")
    def _as_given(self, fields_of: SerializerFunctionWrapHandler) -> dict[str, Any]:
        given = fields_of(self)
        fields: dict[str, Any] = {name: given[name] for name in self.field_names() if name in given}
        if self.upstreams:
            fields.pop("upstream", None)
        return fields

    @field_validator("upstreams")
    @classmethod
    def _named_apart(cls, value: dict[str, UpstreamDefinition]) -> dict[str, UpstreamDefinition]:
        require_names(tuple(value))
        require_different_tables(value)
        return value

    @field_validator("materialized_view")
    @classmethod
    def _canonical_view(cls, value: str) -> str:
        return canonical_table_name(value) if is_like_name(value) else location.canonical_location(value)

    @field_validator("view_path", "state")
    @classmethod
    def _canonical_folder(cls, value: str) -> str:
        return location.canonical_location(value) if value else ""

    @field_validator("strategy", mode="before")
    @classmethod
    def _known_strategy(cls, value: Any) -> Any:
        *names, last = (f"'{name}'" for name in (AUTO, *kinds.STRATEGIES.names))
        if f"'{value}'" not in (*names, last):
            raise ValueError(f"Input should be {', '.join(names)} or {last}")
        return value

    @field_validator("query")
    @classmethod
    def _known_shape(cls, value: str, info: ValidationInfo) -> str:
        # A wrong refresh is refused by itself, and is not here then; so are wrong upstreams.
        if (upstreams := info.data.get("upstreams")) is not None:
            kinds.shape_of(value, info.data.get("refresh", Refresh.INCREMENTAL), tuple(upstreams))
        return value

    @field_validator("table_properties")
    @classmethod
    def _allowed_properties(cls, value: dict[str, str]) -> dict[str, str]:
        require_allowed_properties(value)
        return value

    @model_validator(mode="after")
    def _led(self) -> Self:
        if self.upstreams:
            read = kinds.query_of(self).relations
            object.__setattr__(self, "upstream", self.upstreams[lead_of(self.upstreams, read, self.lead)])
        elif self.lead:
            raise InvalidJobError(f"lead: upstream is the only table, so {self.lead} cannot lead; leave lead out")
        return self

    @model_validator(mode="after")
    def _separate_folders(self) -> Self:
        if self.view_path and not self.view_name:
            raise InvalidJobError("view_path: materialized_view is a location already; leave one of them out")
        if not self.state and self.view_location:
            object.__setattr__(self, "state", location.default_state(self.view_location, self.name))
        folders = self.separate_folders
        if found := location.nested(folders):
            inner, outer = found
            raise InvalidJobError(
                f"{inner} ({folders[inner]}) lies in {outer} ({folders[outer]}); give each its own folder"
            )
        if self.state:
            lead = self.lead_name
            own = {name: found.for_job(self.name, self.state) for name, found in self.all_upstreams.items()}
            object.__setattr__(self, "upstream", own[lead])
            if self.upstreams:
                object.__setattr__(self, "upstreams", {name: own[name] for name in self.upstreams})
        return self

    @model_validator(mode="after")
    def _allowed_settings(self) -> Self:
        parse_vnodes(self.restrict_to.vnodes, self.vnode_count)
        require_parallelism(self.parallelism, self.vnode_count)
        require_target_of_auto(self.rate_limit, self.target_epoch_seconds)
        require_possible(
            self.backfill_from,
            self.as_of,
            vnode_count=self.vnode_count,
            several=bool(self.upstreams),
            whole=self.refresh is Refresh.FULL,
            restricted=self.restrict_to != Restriction(),
            named_in_place=self.adopts_in_place and bool(self.view_name),
            laid_out_in_place=self.adopts_in_place and self.has_layout,
        )
        return self

    @model_validator(mode="after")
    def _supported_by_kinds(self) -> Self:
        shape = kinds.shape_of_job(self)
        if self.keep.keeps_former_rows and self.others and "valid_by" not in self.model_fields_set:
            object.__setattr__(self, "valid_by", ValidBy.EPOCH)
        require_keepable(self, shape, self.upstream, self.refresh, several=bool(self.others))
        self.require_followable(self.query, self.all_upstreams.values(), keeps_arrangement=self.keep_arrangement)
        shape.require_job(self)
        named = kinds.strategy_of(self)
        limits = ShapeLimits(shape, self.query, None if named is None else named.name)
        for usual in (shape.default_visibility if named is None else named.only_visibility, limits.usual_visibility):
            if usual is not None and "visibility" not in self.model_fields_set:
                object.__setattr__(self, "visibility", usual)
        limits.require(visibility=self.visibility, parallelism=self.parallelism, speed=self.rate.limits)
        if named is not None:
            named.require_job(self)
        return self

    @property
    def separate_folders(self) -> dict[str, str]:
        """The locations that must not lie in one another, by the names of their fields, as far as they are known."""
        by_default = (found.default_folders(self.state) for found in self.all_upstreams.values() if self.state)
        within_state = frozenset[str]().union(*by_default)
        folders = {name: folder for name, folder in self.upstream_folders.items() if folder not in within_state}
        if self.view_location:
            folders["view_path" if self.view_name else "materialized_view"] = self.view_location
        if self.backfill_from is not None and not self.adopts_in_place:
            folders["backfill_from.path"] = self.backfill_from.path
        if self.state:
            folders["state"] = self.state
        return folders

    @property
    def lead_name(self) -> str:
        """The name of the upstream that leads, in the query."""
        return next((name for name, found in self.upstreams.items() if found is self.upstream), RELATION)

    @property
    def others(self) -> Mapping[str, UpstreamDefinition]:
        """The upstreams beside the one that leads, by their names in the query; empty for most jobs."""
        return {name: found for name, found in self.upstreams.items() if found is not self.upstream}

    @property
    def all_upstreams(self) -> Mapping[str, UpstreamDefinition]:
        """All upstreams by their names in the query; the one that leads is the first."""
        return {self.lead_name: self.upstream, **self.others}

    @property
    def upstream_folders(self) -> Mapping[str, str]:
        """The folders of all upstreams in the lake, by the full names of their fields."""
        return by_field(self.upstream, self.upstreams, lambda found: found.folders)

    @property
    def upstream_files(self) -> Mapping[str, str]:
        """Other local files that the upstreams' definitions name, by the full names of their fields."""
        return by_field(self.upstream, self.upstreams, lambda found: found.files)

    @property
    def connection_ids(self) -> tuple[str, ...]:
        """The ids of the Airflow connections that reading the upstreams needs."""
        ids = (name for found in self.all_upstreams.values() for name in found.connection_ids)
        return tuple(dict.fromkeys(ids))

    @property
    def fields(self) -> dict[str, Any]:
        """The fields, as the constructor takes them."""
        derived = {"upstream" if self.upstreams else "upstreams"}
        return {name: getattr(self, name) for name in type(self).model_fields if name not in derived}

    @property
    def view_name(self) -> str:
        """The view's full name in a catalog; empty if it is only at a location."""
        return self.materialized_view if is_like_name(self.materialized_view) else ""

    @property
    def view_location(self) -> str:
        """The view's location; empty as long as only its name is known."""
        return self.view_path if self.view_name else self.materialized_view

    @property
    def adopts_in_place(self) -> bool:
        """Whether a table that lies where the view does becomes the view."""
        return self.backfill_from is not None and self.backfill_from.path == self.view_location

    def computed(self) -> Self:
        """Return the job as one whose view is computed from its upstream, as a rebuild does it."""
        if self.backfill_from is None:
            return self
        return type(self)(**self.fields | {"backfill_from": None, "as_of": None})

    @property
    def is_placed(self) -> bool:
        """Whether all locations are known; those of tables that are named in a catalog are looked up at creation."""
        return all(found.is_placed for found in self.all_upstreams.values()) and bool(self.view_location)

    def placed(self, *, upstream: str = "", view: str = "", others: Mapping[str, str] = MappingProxyType({})) -> Self:
        """
        Return the job with locations of the tables that it names in a catalog.

        :param upstream: the location of the upstream, or of the one that leads; empty to leave it as it is.
        :param view: the view's location, likewise.
        :param others: the locations of :attr:`others`, by their names, likewise.
        :raises InvalidJobError: if one of the folders lies in another.
        """
        places = {self.lead_name: upstream, **others}
        found = {name: self.all_upstreams[name].placed(path) for name, path in places.items() if path}
        if not (found or view):
            return self
        named = {"upstreams": {**self.upstreams, **found}} if self.upstreams else {"upstream": found.get(RELATION)}
        fields = self.fields | {name: value for name, value in named.items() if found}
        return type(self)(**fields | ({"view_path": view} if view else {}))

    def placed_like(self, created: BackfillJob) -> Self:
        """Return the job with those locations that it leaves open, as a job has them that names the same tables."""
        theirs = created.all_upstreams
        known = {
            name: theirs[name].location
            for name, found in self.all_upstreams.items()
            if not found.is_placed and name in theirs and theirs[name].catalog_table == found.catalog_table
        }
        return self.placed(
            upstream=known.pop(self.lead_name, ""),
            others=known,
            view="" if self.view_location or self.view_name != created.view_name else created.view_location,
        )

    @property
    def rate(self) -> AskedRate:
        """What the definition asks of the job's speed at first."""
        return AskedRate.of(self)

    @property
    def vnodes(self) -> frozenset[int]:
        """The vnodes that the job reads."""
        restricted = parse_vnodes(self.restrict_to.vnodes, self.vnode_count)
        return restricted or frozenset(range(self.vnode_count))

    @classmethod
    def from_yaml(cls, path: str | Path) -> Self:
        """
        Read a definition from a YAML file.

        :raises InvalidJobError: if the file cannot be read, is not a YAML mapping, or does not define a valid job.
        """
        content = read_yaml(path)
        if not isinstance(content, dict):
            raise InvalidJobError(f"{path}: is not a mapping of a job's fields ({', '.join(cls.field_names())})")
        try:
            return cls(**{str(field): value for field, value in content.items()})
        except InvalidJobError as error:
            raise InvalidJobError(f"{path}: {error}") from None

    def definition(self) -> dict[str, Any]:
        """Return the fields in which two definitions of one job must agree, ready for JSON: all but settings."""
        return self.model_dump(mode="json", exclude=set(INITIAL_SETTINGS))
