"""
Schemas in a Delta log: the types of columns, and whether the type of a used column has changed.

Only changes that affect values count. Comments, defaults, constraints, nullability and the state of identity columns
are metadata and affect no value. A field that was added to a nested column affects none of the others, and the engine
reads only those.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from airflow_backfill_provider.core.epoch.settings import ResolvedUpstream

_AFFECTS_NO_VALUE = frozenset({"metadata", "nullable", "containsNull", "valueContainsNull"})
_PHYSICAL_NAME = "delta.columnMapping.physicalName"

CHAR_OR_VARCHAR = "__CHAR_VARCHAR_TYPE_STRING"
"""Under this name a column's metadata has its type in SQL. Spark pads CHAR(n) where it reads a column that has this."""

HIDDEN = "backfill.hidden"
"""A column's metadata has this if it keeps the state of a view of this package, and is no column of its query."""

_CHAR = re.compile(r"char\((\d+)\)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class TableSchema:
    """
    The columns of a table as of one version.

    :param types: column → type, as Delta writes it; nested types as JSON.
    :param physical_names: column → its name in the data files, if that differs.
    :param partitioned_by: the partition columns.
    :param hidden: the columns that no reader is shown, because they keep the state of a view of this package.
    :param required: the columns that are never null.
    """

    types: Mapping[str, str]
    physical_names: Mapping[str, str]
    partitioned_by: frozenset[str] = frozenset()
    hidden: frozenset[str] = frozenset()
    required: frozenset[str] = frozenset()

    @classmethod
    def of(cls, schema: str, partition_columns: Sequence[str] = ()) -> Self:
        """
        Parse a schema.

        :param schema: JSON, such as the ``schemaString`` of a ``metaData`` action.
        """
        fields = json.loads(schema)["fields"]
        stored = {found["name"]: found.get("metadata", {}).get(_PHYSICAL_NAME, found["name"]) for found in fields}
        return cls(
            types={found["name"]: type_name(found["type"]) for found in fields},
            physical_names={name: physical for name, physical in stored.items() if physical != name},
            partitioned_by=frozenset(partition_columns),
            hidden=frozenset(found["name"] for found in fields if found.get("metadata", {}).get(HIDDEN)),
            required=frozenset(found["name"] for found in fields if not found.get("nullable", True)),
        )

    @property
    def shown_types(self) -> dict[str, str]:
        """The types of the columns that are not hidden."""
        return {name: kind for name, kind in self.types.items() if name not in self.hidden}

    def differences_from(self, upstream: ResolvedUpstream) -> list[str]:
        """Return one sentence for each column that the job uses and that has changed."""
        problems = []
        for column in upstream.columns:
            found = self.types.get(column.name)
            if found is None:
                problems.append(f"column {column.name!r} is gone")
            elif not is_still(column.type, found):
                problems.append(f"column {column.name!r} was {column.type} and is {found}")
            elif self.physical_names.get(column.name) != column.physical_name:
                problems.append(f"column {column.name!r} was dropped and created again")
        return problems

    def stored(self) -> TableSchema:
        """Return the same columns under their names in the data files, which a renaming does not change."""
        stored = {name: self.physical_names.get(name, name) for name in self.types}
        return TableSchema(
            types={stored[name]: kind for name, kind in self.types.items()},
            physical_names={},
            partitioned_by=frozenset(stored.get(name, name) for name in self.partitioned_by),
        )


def plain_type(kind: str) -> str:
    """Return a type without the names that fields have in data files, so that it can be compared with a query's."""
    if not kind.startswith("{"):
        return kind
    plain = json.loads(kind, object_hook=lambda found: {k: v for k, v in found.items() if k != "physicalName"})
    return json.dumps(plain, sort_keys=True)


def char_length(field: Mapping[str, Any]) -> int:
    """
    Return n of a column of type CHAR(n), which Delta calls a string; 0 for all others.

    :param field: the column in a table's schema.
    """
    found = _CHAR.fullmatch(str(field.get("metadata", {}).get(CHAR_OR_VARCHAR, "")))
    return int(found[1]) if found else 0


def is_still(created: str, found: str) -> bool:
    """Tell whether a type still has everything that it had at creation; nested types may have new fields."""
    if created == found:
        return True
    return created[:1] == found[:1] == "{" and _has_all(json.loads(created), json.loads(found))


def _has_all(created: Any, found: Any) -> bool:
    if created == found:
        return True
    if not (isinstance(created, dict) and isinstance(found, dict)) or created["type"] != found["type"]:
        return False
    match created["type"]:
        case "struct":
            there = {part["name"]: part for part in found["fields"]}
            return all(
                (other := there.get(part["name"])) is not None
                and part.get("physicalName") == other.get("physicalName")
                and _has_all(part["type"], other["type"])
                for part in created["fields"]
            )
        case "array":
            return _has_all(created["elementType"], found["elementType"])
        case "map":
            # Two keys that differ only in a new field would become one.
            return bool(created["keyType"] == found["keyType"]) and _has_all(created["valueType"], found["valueType"])
    return False


def type_name(delta_type: Any) -> str:
    """Return a type's name; for a nested type, its JSON without the properties that affect no value."""
    return delta_type if isinstance(delta_type, str) else json.dumps(_without_metadata(delta_type), sort_keys=True)


def _without_metadata(delta_type: Any) -> Any:
    if isinstance(delta_type, list):
        return [*map(_without_metadata, delta_type)]
    if not isinstance(delta_type, dict):
        return delta_type
    kept = {name: _without_metadata(part) for name, part in delta_type.items() if name not in _AFFECTS_NO_VALUE}
    physical_name = delta_type.get("metadata", {}).get(_PHYSICAL_NAME)
    return kept if physical_name is None else {**kept, "physicalName": physical_name}
