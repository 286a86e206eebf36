"""
Partitioned tables in the change log: what comes under the names of partitions is of their table.

The database logs no rows when a partition is truncated, detached, dropped, or attached with rows. So the view cannot
follow, and the job is refused instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from airflow_backfill_provider.sources.shared.change_log.changes import LoggedKind
from airflow_backfill_provider.sources.shared.change_log.queries import LoggedPartitions
from airflow_backfill_provider.sources.shared.postgresql.catalog import Partition

Fields = dict[str, Any]
"""Some fields of a row of the change log."""


@dataclass(frozen=True)
class PartitionTrees:
    """
    The published tables' partitions.

    :param by_root: the partitions of each partitioned table, by its oid.
    """

    by_root: Mapping[int, Sequence[Partition]] = field(default_factory=dict)

    @cached_property
    def _roots(self) -> Mapping[int, int]:
        return {partition.oid: root for root, leaves in self.by_root.items() for partition in leaves}

    def table_of(self, oid: int) -> str:
        """Return the id in the change log of the table that a table's rows belong to."""
        return str(self._roots.get(oid, oid))

    def truncated(self, oids: Sequence[int]) -> Iterator[Fields]:
        """
        Yield a row for each table that was truncated, or of which a part was.

        :param oids: the tables and partitions that were truncated together.
        """
        for table in dict.fromkeys(map(self.table_of, oids)):
            leaves = {partition.oid: partition.name for partition in self.by_root.get(int(table), ())}
            # Partitions that were made or dropped since then do not matter if the whole table is named.
            if int(table) not in oids and not set(leaves) <= set(oids):
                names = ", ".join(name for oid, name in leaves.items() if oid in oids)
                text = f"TRUNCATE of {names}, and not of the whole table"
                yield {"table": table, "kind": LoggedKind.PART_REMOVED, "new": {"text": text}}
            else:
                yield {"table": table, "kind": LoggedKind.TRUNCATE}

    def differences(self, known: Mapping[str, LoggedPartitions | None]) -> Iterator[Fields]:
        """
        Yield rows for the tables whose partitions are not the known ones: what they are, and what came or went.

        :param known: the partitions that the change log has, by table.
        """
        for root, leaves in self.by_root.items():
            table, before = str(root), known.get(str(root))
            now = LoggedPartitions(
                {str(partition.oid): partition.name for partition in leaves},
                {str(partition.oid): partition.since for partition in leaves},
            )
            if before == now:
                continue
            yield {"table": table, "kind": LoggedKind.PARTITIONS, "new": now.names, "old": now.since}
            for text in () if before is None else _what_happened(before, now, leaves):
                yield {"table": table, "kind": LoggedKind.PART_REMOVED, "new": {"text": text}}


def _what_happened(before: LoggedPartitions, now: LoggedPartitions, leaves: Sequence[Partition]) -> Iterator[str]:
    """Yield what came or went with rows; a partition that was made as one had none."""
    attached = {str(partition.oid) for partition in leaves if partition.was_attached}
    for oid, name in sorted(before.names.items()):
        if oid not in now.names:
            yield f"DETACH or DROP of partition {name}"
        elif before.since[oid] != now.since[oid]:
            yield f"DETACH of partition {name}, which was attached again"
    for oid, name in sorted(now.names.items()):
        if oid not in before.names and oid in attached:
            yield f"ATTACH of partition {name}, which may have had rows"
