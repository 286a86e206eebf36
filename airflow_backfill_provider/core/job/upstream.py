"""The definition of a job's upstream: the fields that every kind of source has."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    StrictBool,
    StrictStr,
    model_serializer,
    model_validator,
)

from airflow_backfill_provider.core import kinds
from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.scan.offset import Offset


class KeyColumn(BaseModel):
    """A column of the upstream's primary key; in YAML its name, or ``{column, descending}``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    column: Annotated[StrictStr, Field(min_length=1)]
    descending: StrictBool = False

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: Any) -> Any:
        return {"column": value} if isinstance(value, str) else value

    @model_serializer
    def _to_name(self) -> str | dict[str, Any]:
        return {"column": self.column, "descending": True} if self.descending else self.column


class UpstreamDefinition(BaseModel):
    """
    The changing table that a job reads, and which columns identify and distribute its rows.

    Each kind of source has a subclass with the fields that locate its upstreams. In a job, the fields stand below the
    kind's name, ``upstream: {postgres: {…}}``; only the first kind needs no name.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: ClassVar[str]
    """The name of the kind of source."""

    offset_name: ClassVar[str] = "version"
    """What an offset of this kind is called in texts."""

    lag_unit: ClassVar[str] = "version"
    """What the distance of two offsets counts, in the singular."""

    has_versions: ClassVar[bool] = False
    """Whether an offset is the version of a table, each change has that of its commit, and names the row's key."""

    appends_only: ClassVar[bool] = False
    """Whether rows are only appended, each to one of several splits, and never change."""

    key: Annotated[tuple[KeyColumn, ...], Field(min_length=1)]
    distribution_key: tuple[StrictStr, ...] = ()

    @classmethod
    def claims(cls, fields: Mapping[str, object]) -> bool:
        """Return whether fields that stand in a job without a kind's name are of this kind; by default not."""
        del fields
        return False

    @property
    @abstractmethod
    def location(self) -> str:
        """The upstream's location in messages and on pages, without secrets."""

    @property
    def watched(self) -> str:
        """What identifies a poll for new offsets, so that jobs share it; by default the location."""
        return self.location

    @classmethod
    def field_names(cls) -> list[str]:
        """Return the names of the fields: first the kind's own, then those of every kind."""
        return sorted(cls.model_fields, key=lambda name: name in UpstreamDefinition.model_fields)

    @property
    def folders(self) -> Mapping[str, str]:
        """
        The upstream's folders in the lake; empty if it is not in the lake.

        Each stands by the full name of its field, such as ``upstream.postgres.folder``. Make each canonical with
        ``core.location.canonical_location``, because the check of allowed folders relies on it.
        """
        return {}

    @property
    def files(self) -> Mapping[str, str]:
        """
        Other local files that the definition names, such as those of schemas; by default none.

        Each stands by the full name of its field, like a folder.
        """
        return {}

    @property
    def catalog_table(self) -> str:
        """The full name of the upstream's table in a catalog; empty, the default, if it is not named in one."""
        return ""

    @property
    def is_placed(self) -> bool:
        """Whether the upstream can be opened; a table that is named in a catalog needs its location first."""
        return True

    def placed(self, path: str) -> Self:
        """
        Return the definition with the location of the table that it names in a catalog.

        :raises TypeError: if it names none.
        """
        raise TypeError(f"an upstream of kind {self.kind} names no table in a catalog, so it cannot lie at {path}")

    @property
    def connection_ids(self) -> tuple[str, ...]:
        """The ids of the Airflow connections that reading the upstream needs; by default none."""
        return ()

    @property
    def lists_unreadable(self) -> bool:
        """Whether rows that cannot be read are left out of the view and listed; by default they fail an epoch."""
        return False

    @property
    def kept_for_job(self) -> str:
        """
        What is kept about the upstream with the control tables of one job, as a text; empty, the default, if nothing.

        A rebuild that grows beside a view keeps its own, and cannot hand it over.
        """
        return ""

    @property
    def keeps_all_columns(self) -> bool:
        """
        Whether rows and changes can be read with other columns than a job has used so far; by default not.

        What is landed for a job may have only the columns that it uses.
        """
        return False

    def split_ends(self, offset: Offset) -> Mapping[int, int] | None:
        """
        Return for each split of the upstream, such as a partition, the place after its last row as of an offset.

        :returns: ``None``, the default, if upstreams of this kind have no splits.
        """
        del offset
        return None

    def for_job(self, name: str, state: str) -> Self:
        """
        Return the definition with the defaults that depend on the job.

        :param name: the job's name.
        :param state: the folder of its control tables.
        """
        del name, state
        return self

    def default_folders(self, state: str) -> frozenset[str]:
        """Return the folders that the upstream gets by default, within that of the control tables."""
        del state
        return frozenset()

    @model_validator(mode="after")
    def _default_distribution_key(self) -> Self:
        names = [column.column for column in self.key]
        for field, columns in (("key", names), ("distribution_key", list(self.distribution_key))):
            repeated = sorted({name for name in columns if columns.count(name) > 1})
            if repeated:
                raise InvalidJobError(f"{field} names {', '.join(repeated)} more than once; name each column once")
        if not self.distribution_key:
            object.__setattr__(self, "distribution_key", tuple(names))
        return self

    @model_serializer(mode="wrap")
    def _below_its_kind(self, fields_of: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = fields_of(self)
        return fields if self.kind == kinds.SOURCES.names[0] else {self.kind: fields}


def definition_class(value: Any) -> tuple[type[UpstreamDefinition], Any]:
    """
    Return the definition class of an upstream's kind of source.

    :param value: the field ``upstream`` of a job's definition.
    :returns: the class, and the fields for it.
    """
    definition: type[UpstreamDefinition]
    if isinstance(value, Mapping) and len(value) == 1:
        ((name, fields),) = value.items()
        if name in kinds.SOURCES and isinstance(fields, Mapping):
            definition = kinds.SOURCES.named(name).definition
            return definition, fields
    if isinstance(value, Mapping):
        for kind in kinds.SOURCES:
            if kind.definition.claims(value):
                definition = kind.definition
                return definition, value
    definition = next(iter(kinds.SOURCES)).definition
    return definition, value
