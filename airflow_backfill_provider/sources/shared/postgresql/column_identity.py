"""
What a column of a PostgreSQL table is, beyond its name and its type in Delta.

The values of a view stay right only as long as each name means the same column, and each column's stored values have
the same text. The name of a column may move to another one (``RENAME``, ``DROP`` and ``ADD``). A stored value gets
another text if the column gets another type, if a label of an enum is renamed, or if a composite type gets other
fields. The log has no changes of rows for any of these. So a job pins what each used column is.

A column that is only declared longer keeps its identity. If its values were written anew, that is found by
:mod:`~airflow_backfill_provider.sources.shared.postgresql.rewrites`.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict

from airflow_backfill_provider.sources.shared.postgresql.catalog import Connection

_ALIKE = {1043: 25}
"""The oid of varchar → that of text, because the same bytes are stored and returned."""

# The types that a column consists of: without domains, which do not change values. The oid of a label never changes,
# and its row is written again only if the label is renamed.
_IDENTITIES = """
WITH RECURSIVE reached (attnum, oid) AS (
    SELECT a.attnum, a.atttypid
    FROM pg_attribute a WHERE a.attrelid = %(table)s::bigint::oid AND a.attnum > 0 AND NOT a.attisdropped
    UNION
    SELECT r.attnum, part.oid
    FROM reached r JOIN pg_type t ON t.oid = r.oid
    CROSS JOIN LATERAL (
        SELECT t.typbasetype UNION ALL SELECT t.typelem
        UNION ALL SELECT g.rngsubtype FROM pg_range g WHERE g.rngtypid = t.oid
        UNION ALL SELECT f.atttypid FROM pg_attribute f
                  WHERE f.attrelid = t.typrelid AND t.typrelid <> 0 AND f.attnum > 0 AND NOT f.attisdropped
    ) part (oid)
    WHERE part.oid <> 0
)
SELECT a.attname::text, a.attnum::int, format_type(a.atttypid, a.atttypmod),
       ARRAY(SELECT t.oid::bigint FROM reached r JOIN pg_type t ON t.oid = r.oid
             WHERE r.attnum = a.attnum AND t.typtype <> 'd'),
       (SELECT jsonb_object_agg(e.oid, e.enumlabel || ' ' || e.xmin)
        FROM reached r JOIN pg_enum e ON e.enumtypid = r.oid WHERE r.attnum = a.attnum),
       (SELECT jsonb_object_agg(f.attrelid || '.' || f.attnum, f.atttypid || ' ' || f.atttypmod)
        FROM reached r JOIN pg_type t ON t.oid = r.oid AND t.typrelid <> 0
        JOIN pg_attribute f ON f.attrelid = t.typrelid AND f.attnum > 0 AND NOT f.attisdropped
        WHERE r.attnum = a.attnum)
FROM pg_attribute a WHERE a.attrelid = %(table)s::bigint::oid AND a.attnum > 0 AND NOT a.attisdropped
"""


class ColumnIdentity(BaseModel):
    """
    What a column is.

    :param number: its number in the table; a column that is dropped and added again gets another one.
    :param declared: its type, as SQL writes it.
    :param types: the oids of the types that it consists of.
    :param labels: oid → text of each label of its enums.
    :param fields: the fields of its composite types.
    """

    model_config = ConfigDict(frozen=True)

    number: int
    declared: str
    types: tuple[int, ...]
    labels: Mapping[str, str] = {}
    fields: Mapping[str, str] = {}

    def difference(self, now: ColumnIdentity | None, name: str) -> str:
        """
        Return what became of the column; an empty text if it is the same.

        :param now: the column that has the name now; ``None`` if there is none.
        :param name: the column's name, for messages.
        """
        if now is None:
            return f"column {name} is gone"
        if now.number != self.number:
            return f"column {name} is another column now: it was dropped and added again, or renamed"
        if now.fields and self.fields and now.fields != self.fields:
            return f"the composite type of column {name} has other fields"
        if now.types != self.types:
            return f"column {name} was {self.declared} and is {now.declared}"
        if any(now.labels.get(oid) != label for oid, label in self.labels.items()):
            return f"labels of the enum of column {name} were renamed or removed"
        return ""


def column_identities(connection: Connection, table: int) -> dict[str, ColumnIdentity]:
    """
    Return what each column of a table is, by name.

    :param table: the table's oid.
    """
    return {
        name: ColumnIdentity(
            number=number,
            declared=declared,
            types=tuple(sorted({_ALIKE.get(oid, oid) for oid in types})),
            labels=labels or {},
            fields=fields or {},
        )
        for name, number, declared, types, labels, fields in connection.execute(_IDENTITIES, {"table": table})
    }


def pinned_identities(identities: Mapping[str, ColumnIdentity], used: frozenset[str]) -> dict[str, str]:
    """Return what a job pins of the columns that it uses."""
    return {name: identity.model_dump_json() for name, identity in identities.items() if name in used}


def identity_problems(pinned: Mapping[str, str], now: Mapping[str, ColumnIdentity]) -> list[str]:
    """
    Return what became of the columns that a job pinned.

    :param pinned: as :func:`pinned_identities` returned it.
    """
    found = (ColumnIdentity.model_validate_json(text).difference(now.get(name), name) for name, text in pinned.items())
    return [problem for problem in found if problem]


def pinned_numbers(pinned: Mapping[str, str]) -> dict[str, str]:
    """Return the number of each column that a job pinned, as the change log has it."""
    return {name: str(ColumnIdentity.model_validate_json(text).number) for name, text in pinned.items()}
