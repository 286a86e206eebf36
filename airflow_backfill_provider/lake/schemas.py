"""
Schemas as a Delta log writes them down: the types of columns, and whether a used one is still what it was.

Only what a value is counts. Comments, defaults, constraints, nullability and where an identity column stands change
with a column's metadata, and no value changes with them. A part that was added to a nested column changes none of the
parts that were there, and the engine reads these alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from airflow_backfill_provider.core.settings import ResolvedUpstream

_NO_PART_OF_A_TYPE = frozenset({"metadata", "nullable", "containsNull", "valueContainsNull"})
_PHYSICAL_NAME = "delta.columnMapping.physicalName"


@dataclass(frozen=True, slots=True)
class TableSchema:
    """
    The columns of a table as of one version.

    :param types: column → type, as Delta writes it; nested types as JSON.
    :param physical_names: column → its name in the data files, where that is another one.
    :param partitioned_by: the partition columns.
    """

    types: Mapping[str, str]
    physical_names: Mapping[str, str]
    partitioned_by: frozenset[str] = frozenset()

    @classmethod
    def of(cls, schema: str, partition_columns: Sequence[str] = ()) -> Self:
        """
        Return what a schema says.

        :param schema: as JSON, from a ``metaData`` action's ``schemaString``, say.
        """
        fields = json.loads(schema)["fields"]
        stored = {found["name"]: found.get("metadata", {}).get(_PHYSICAL_NAME, found["name"]) for found in fields}
        return cls(
            types={found["name"]: type_name(found["type"]) for found in fields},
            physical_names={name: physical for name, physical in stored.items() if physical != name},
            partitioned_by=frozenset(partition_columns),
        )

    def differences_from(self, upstream: ResolvedUpstream) -> list[str]:
        """Return what became of the columns that a job uses, one sentence for each that is not what it was."""
        problems = []
        for column in upstream.columns:
            found = self.types.get(column.name)
            if found is None:
                problems.append(f"column {column.name!r} is gone")
            elif not is_still(column.type, found):
                problems.append(f"column {column.name!r} was {column.type} and is {found}")
            elif self.physical_names.get(column.name) != column.physical_name:
                problems.append(f"column {column.name!r} was dropped and is a new one of that name")
        return problems

    def stored(self) -> TableSchema:
        """Return the same columns under their names in the data files, which stay when a column is renamed."""
        stored = {name: self.physical_names.get(name, name) for name in self.types}
        return TableSchema(
            types={stored[name]: kind for name, kind in self.types.items()},
            physical_names={},
            partitioned_by=frozenset(stored.get(name, name) for name in self.partitioned_by),
        )


def is_still(created: str, found: str) -> bool:
    """Tell whether a type has all that another one had; parts of nested types may have come."""
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
            # Keys that differ in a part that nobody knew of would become one key.
            return bool(created["keyType"] == found["keyType"]) and _has_all(created["valueType"], found["valueType"])
    return False


def type_name(delta_type: Any) -> str:
    """Return a type's name; of a nested type, its JSON without what may change while its values stay what they are."""
    return delta_type if isinstance(delta_type, str) else json.dumps(_without_comments(delta_type), sort_keys=True)


def _without_comments(delta_type: Any) -> Any:
    if isinstance(delta_type, list):
        return [*map(_without_comments, delta_type)]
    if not isinstance(delta_type, dict):
        return delta_type
    kept = {name: _without_comments(part) for name, part in delta_type.items() if name not in _NO_PART_OF_A_TYPE}
    physical_name = delta_type.get("metadata", {}).get(_PHYSICAL_NAME)
    return kept if physical_name is None else {**kept, "physicalName": physical_name}
