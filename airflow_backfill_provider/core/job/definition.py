"""
The definition of a backfill job: one object for DAG files, YAML and the command line.

A definition is validated here as far as possible without reading a table. The rest is validated when the job is
created (:func:`airflow_backfill_provider.jobs.creation.create_job`).
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializeAsAny,
    StrictBool,
    StrictInt,
    StrictStr,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
    model_validator,
)

from airflow_backfill_provider.core import kinds, location
from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.job_file import read_yaml
from airflow_backfill_provider.core.job.job_problems import explained
from airflow_backfill_provider.core.job.rate_limit import (
    AskedRate,
    PaceField,
    RateLimitField,
    TargetField,
    require_target_of_auto,
)
from airflow_backfill_provider.core.job.table_name import canonical_table_name, is_like_name
from airflow_backfill_provider.core.job.upstream import KeyColumn, UpstreamDefinition, definition_class
from airflow_backfill_provider.core.job.visibility import Visibility
from airflow_backfill_provider.core.job.yaml_text import ShownAsYaml
from airflow_backfill_provider.core.refresh import Refresh
from airflow_backfill_provider.core.scan.keys import EncodedPosition
from airflow_backfill_provider.core.scan.vnodes import parse_vnodes

MAX_VNODE_COUNT = 32_768

INITIAL_SETTINGS = ("paused", "rate_limit", "target_epoch_seconds", "max_rows_per_second", "parallelism")
"""Fields that only initialize the job's settings; they may be edited at any time."""

AUTO = "auto"
"""Leaves the choice of the strategy to the job's creation."""

JobName = Annotated[str, StringConstraints(strict=True, pattern=r"^[a-z0-9_]+$", max_length=100)]
VnodeCount = Annotated[StrictInt, Field(ge=1, le=MAX_VNODE_COUNT)]
Parallelism = Annotated[StrictInt, Field(ge=1, le=MAX_VNODE_COUNT)]


class KeyBounds(BaseModel):
    """
    A range of keys, ``(after, up_to]``. Each bound is a list of values, one for each key column or each leading one.

    :param after: exclusive lower bound; without it the range begins with the first key.
    :param up_to: inclusive upper bound; without it the range ends with the last key.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    after: EncodedPosition | None = None
    up_to: EncodedPosition | None = None

    @field_validator("after", "up_to", mode="before")
    @classmethod
    def _as_text(cls, value: Any) -> Any:
        return None if value is None else encoded_key(value)


class Restriction(BaseModel):
    """
    The part of the upstream that a job reads; the view is the query over these rows only.

    :param vnodes: numbers and ranges of vnodes, such as ``[0-15, 20]``; empty for all.
    :param keys: a range of keys.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    vnodes: tuple[StrictInt | StrictStr, ...] = ()
    keys: KeyBounds = KeyBounds()


class BackfillJob(ShownAsYaml):
    """
    The definition of a materialized view over a changing table, and of how to create it.

    :param name: identifies the job, its DAG and its transactions; lower-case letters, digits and ``_``.
    :param upstream: the table to read; see :class:`~airflow_backfill_provider.core.job.upstream.UpstreamDefinition`.
    :param materialized_view: the location of the materialized view's Delta table, or its full name in a catalog,
        ``catalog.schema.table``. Under the name, the view is registered in the catalog.
    :param refresh: what an epoch computes when rows changed: ``incremental``, the default, what they touch; ``full``
        the whole view, also of queries that cannot be kept up to date otherwise; ``auto`` either, for views of groups;
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
        strategy or the query's shape supports only the other.
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
    upstream: SerializeAsAny[UpstreamDefinition]
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
            upstream = fields.get("upstream")
            problems = explained(error, upstream, lambda path: _fields_at(path, upstream))
            raise InvalidJobError("; ".join(problems)) from None

    @field_validator("materialized_view")
    @classmethod
    def _canonical_view(cls, value: str) -> str:
        return canonical_table_name(value) if is_like_name(value) else location.canonical_location(value)

    @field_validator("upstream", mode="wrap")
    @classmethod
    def _known_source(cls, value: Any, _: ValidatorFunctionWrapHandler) -> UpstreamDefinition:
        if isinstance(value, UpstreamDefinition):
            return value
        kind, fields = definition_class(value)
        return kind.model_validate(fields)

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
        # A wrong refresh is refused by itself, and is not here then.
        kinds.shape_of(value, info.data.get("refresh", Refresh.INCREMENTAL))
        return value

    @field_validator("table_properties")
    @classmethod
    def _allowed_properties(cls, value: dict[str, str]) -> dict[str, str]:
        reserved = sorted(name for name in value if name.lower().startswith("backfill."))
        if reserved:
            raise InvalidJobError(
                f"{', '.join(reserved)}: properties that begin with 'backfill.' are reserved; leave them out"
            )
        for name, text in value.items():
            if name.lower() == "delta.appendonly" and text.lower() == "true":
                raise InvalidJobError(f"{name}: changes cannot be applied to an append-only view; leave it out")
            if name.lower() == "delta.settransactionretentionduration":
                raise InvalidJobError(
                    f"{name}: if Delta forgets a transaction, a retry writes the same rows twice; leave it out"
                )
        return value

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
            object.__setattr__(self, "upstream", self.upstream.for_job(self.name, self.state))
        return self

    @model_validator(mode="after")
    def _allowed_settings(self) -> Self:
        parse_vnodes(self.restrict_to.vnodes, self.vnode_count)
        require_parallelism(self.parallelism, self.vnode_count)
        require_target_of_auto(self.rate_limit, self.target_epoch_seconds)
        return self

    @model_validator(mode="after")
    def _supported_by_kinds(self) -> Self:
        shape = kinds.shape_of(self.query, self.refresh)
        shape.require_job(self)
        named = None if self.strategy == AUTO else kinds.STRATEGIES.named(self.strategy)
        for kind in (shape, named):
            if kind is not None and kind.only_visibility is not None and "visibility" not in self.model_fields_set:
                object.__setattr__(self, "visibility", kind.only_visibility)
        limits = kinds.ShapeLimits(shape, self.query, None if named is None else named.name)
        limits.require(visibility=self.visibility, parallelism=self.parallelism, speed=self.rate.limits)
        if named is not None:
            named.require_job(self)
        return self

    @property
    def separate_folders(self) -> dict[str, str]:
        """The locations that must not lie in one another, by the names of their fields, as far as they are known."""
        within_state = self.upstream.default_folders(self.state) if self.state else frozenset()
        folders = {name: folder for name, folder in self.upstream.folders.items() if folder not in within_state}
        if self.view_location:
            folders["view_path" if self.view_name else "materialized_view"] = self.view_location
        if self.state:
            folders["state"] = self.state
        return folders

    @property
    def view_name(self) -> str:
        """The view's full name in a catalog; empty if it is only at a location."""
        return self.materialized_view if is_like_name(self.materialized_view) else ""

    @property
    def view_location(self) -> str:
        """The view's location; empty as long as only its name is known."""
        return self.view_path if self.view_name else self.materialized_view

    @property
    def is_placed(self) -> bool:
        """Whether all locations are known; those of tables that are named in a catalog are looked up at creation."""
        return self.upstream.is_placed and bool(self.view_location)

    def placed(self, *, upstream: str = "", view: str = "") -> Self:
        """
        Return the job with locations of the tables that it names in a catalog.

        :param upstream: the upstream's location; empty to leave it as it is.
        :param view: the view's location, likewise.
        :raises InvalidJobError: if one of the folders lies in another.
        """
        if not (upstream or view):
            return self
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        if upstream:
            fields["upstream"] = self.upstream.placed(upstream)
        return type(self)(**fields | ({"view_path": view} if view else {}))

    def placed_like(self, created: BackfillJob) -> Self:
        """Return the job with those locations that it leaves open, as a job has them that names the same tables."""
        same_upstream = self.upstream.catalog_table == created.upstream.catalog_table
        return self.placed(
            upstream="" if self.upstream.is_placed or not same_upstream else created.upstream.location,
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
            raise InvalidJobError(f"{path}: is not a mapping of a job's fields ({', '.join(cls.model_fields)})")
        try:
            return cls(**{str(field): value for field, value in content.items()})
        except InvalidJobError as error:
            raise InvalidJobError(f"{path}: {error}") from None

    def definition(self) -> dict[str, Any]:
        """
        Return the fields in which two definitions of the same job must agree, ready for JSON.

        Those in :data:`INITIAL_SETTINGS` are left out because they only initialize the job's settings.
        """
        return self.model_dump(mode="json", exclude=set(INITIAL_SETTINGS))


def require_parallelism(parallelism: int, vnode_count: int) -> None:
    """
    Refuse a parallelism that a job cannot have.

    :raises InvalidJobError: naming the allowed range.
    """
    if not 1 <= parallelism <= vnode_count:
        raise InvalidJobError(
            f"parallelism: {parallelism} is not allowed; allowed are 1 to {vnode_count}, the job's vnode_count"
        )


def encoded_key(value: Any) -> EncodedPosition:
    """
    Return a key as text, one value per column. Types are checked later, when the upstream's schema is known.

    :param value: a list of values from YAML, JSON or Python, or the single value of a one-column key.
    """
    return tuple(_encoded_value(item) for item in (value if isinstance(value, list | tuple) else [value]))


def _encoded_value(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dt.datetime):
        instant = value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value
        return instant.isoformat(timespec="microseconds") + ("Z" if value.tzinfo else "")
    return value.isoformat() if isinstance(value, dt.date) else str(value)


def _fields_at(path: tuple[int | str, ...], upstream: Any) -> list[str]:
    if not path:
        return list(BackfillJob.model_fields)
    models: dict[int | str, type[BaseModel]] = {"keys": KeyBounds, "restrict_to": Restriction, "key": KeyColumn}
    of_upstream, _ = definition_class(upstream)
    model = next((model for name, model in models.items() if name in path), None)
    return of_upstream.field_names() if model is None else list(model.model_fields)
