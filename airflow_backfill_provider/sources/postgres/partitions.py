"""
Partitioned tables in the change log: what comes under the names of partitions is of their table.

The database logs no rows when a partition is truncated, detached, dropped, or attached with rows. So the view cannot
follow, and the job is refused instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from airflow_backfill_provider.sources.change_log.changes import LoggedKind
from airflow_backfill_provider.sources.postgres.catalog import Partition

Fields = dict[str, Any]
"""Some fields of a row of the change log."""


@dataclass(frozen=True)
class PartitionTrees:
    """
    The published tables' partitions.

    :param partitions: all of them.
    """

    partitions: Sequence[Partition] = ()

    @cached_property
    def _roots(self) -> Mapping[int, int]:
        return {partition.oid: partition.root for partition in self.partitions}

    @cached_property
    def by_root(self) -> Mapping[int, Mapping[int, str]]:
        """The names of each table's partitions, by their oids."""
        trees: dict[int, dict[int, str]] = {}
        for partition in self.partitions:
            trees.setdefault(partition.root, {})[partition.oid] = partition.name
        return trees

    def table_of(self, oid: int) -> str:
        """Return the id in the change log of the table that a table's rows belong to."""
        return str(self._roots.get(oid, oid))

    def truncated(self, oids: Sequence[int]) -> Iterator[Fields]:
        """
        Yield a row for each table that was truncated, or of which a part was.

        :param oids: the tables and partitions that were truncated together.
        """
        for table in dict.fromkeys(map(self.table_of, oids)):
            leaves = self.by_root.get(int(table), {})
            # Partitions that were made or dropped since then do not matter if the whole table is named.
            if int(table) not in oids and not set(leaves) <= set(oids):
                names = ", ".join(name for oid, name in leaves.items() if oid in oids)
                text = f"TRUNCATE of {names}, and not of the whole table"
                yield {"table": table, "kind": LoggedKind.PART_REMOVED, "new": {"text": text}}
            else:
                yield {"table": table, "kind": LoggedKind.TRUNCATE}

    def differences(self, known: Mapping[str, Mapping[str, str]]) -> Iterator[Fields]:
        """
        Yield rows for the tables whose partitions are not the known ones: what they are, and what came or went.

        :param known: the partitions that the change log has, by table.
        """
        attached = {partition.oid for partition in self.partitions if partition.was_attached}
        for root, leaves in self.by_root.items():
            table, names = str(root), {str(oid): name for oid, name in leaves.items()}
            before = known.get(table)
            if before == names:
                continue
            yield {"table": table, "kind": LoggedKind.PARTITIONS, "new": names}
            if before is None:
                continue
            gone = sorted(name for oid, name in before.items() if oid not in names)
            came = sorted(name for oid, name in names.items() if oid not in before and int(oid) in attached)
            for text in (
                *(f"DETACH or DROP of partition {name}" for name in gone),
                *(f"ATTACH of partition {name}, which may have had rows" for name in came),
            ):
                yield {"table": table, "kind": LoggedKind.PART_REMOVED, "new": {"text": text}}
