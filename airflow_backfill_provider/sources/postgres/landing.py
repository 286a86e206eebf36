"""
Lands a slot's changes in a change log: looks at them, appends them in one commit, and only then advances the slot.

The log is never behind the slot. A crash between the commit and the advance leaves the slot behind, and the next
landing skips the transactions that the log has.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_random_exponential

from airflow_backfill_provider.core.epoch.crash_points import CrashPoint, reached
from airflow_backfill_provider.core.errors import ChangeFeedGapError, UpstreamReplacedError
from airflow_backfill_provider.sources.postgres.logged_changes import (
    logged_changes,
    noting_identities,
    noting_repeated,
)
from airflow_backfill_provider.sources.postgres.looks import Looks, logged_numbers
from airflow_backfill_provider.sources.postgres.marks import Marks
from airflow_backfill_provider.sources.postgres.partitions import Fields, PartitionTrees
from airflow_backfill_provider.sources.postgres.pgoutput import Message, Relation, decode
from airflow_backfill_provider.sources.postgres.published import Published
from airflow_backfill_provider.sources.postgres.server_texts import NOT_CONVERTED, ServerTexts
from airflow_backfill_provider.sources.postgres.slot import ReplicationSlot
from airflow_backfill_provider.sources.shared.change_log.changes import OF_ROWS, LoggedChange, LoggedKind
from airflow_backfill_provider.sources.shared.change_log.table import ChangeLog
from airflow_backfill_provider.sources.shared.postgresql.catalog import Connection, partitions, resolve_types
from airflow_backfill_provider.sources.shared.postgresql.database import Database, SlotInUseError

MOST_BYTES = 256 << 20
"""How many bytes of the database's log are landed at a time; the rows may have many more, which it has compressed."""

IDLE_BYTES = 16 << 20
"""A landing without changes is recorded only after so many bytes, so that an idle table gets no new offsets."""

_PATIENCE_SECONDS = 60
"""How long to wait for another process that uses the slot; of one that was killed, the server notices it late."""

_LAST = 1 << 62
"""A number after those of all rows of a transaction."""

UNKNOWN_TYPE = "<unknown>"
"""Stands for a type that was dropped meanwhile."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Landing:
    """
    Lands the changes of one slot.

    :param log: the change log, which exists.
    :param origin: returns what a log of the database and the slot is of.
    :param table_of: returns the oid of the job's table.
    :param key: the job's key.
    """

    database: Database
    slot: ReplicationSlot
    log: ChangeLog
    origin: Callable[[Connection], str]
    table_of: Callable[[Connection], int]
    key: Sequence[str]

    @retry(
        retry=retry_if_exception_type(SlotInUseError),
        wait=wait_random_exponential(multiplier=0.2, max=5),
        stop=stop_after_delay(_PATIENCE_SECONDS),
        reraise=True,
    )
    def land(self, *, at_least: int = 0) -> int:
        """
        Land what the slot has, in commits of up to :data:`MOST_BYTES` of the database's log.

        :param at_least: an LSN up to which to land even if there are no changes.
        :returns: the LSN through which the log is landed.
        :raises ChangeFeedGapError: if something else consumed changes of the slot.
        :raises UpstreamReplacedError: if the database's log is not the one that was landed before.
        :raises ConcurrentUpdateError: if another process lands changes at the same time.
        :raises DatabaseUnavailableError: if the database does not answer.
        """
        with self.database.session() as connection:
            self.log.require_origin(self.origin(connection))
            marks = Marks(self.log.secret())
            up_to = max(self.slot.status(connection).current, at_least)
            while True:
                landed, is_all = self._land_once(connection, up_to, at_least, marks)
                if is_all:
                    return landed

    def oldest_unlanded(self, connection: Connection, table: str) -> LoggedChange | None:
        """
        Return the oldest change of a table's rows that the slot has and the log does not, without landing it.

        The server goes through all log that it keeps for the slot.

        :param table: the table's id in the log.
        :returns: ``None`` if there is none.
        :raises SlotInUseError: if another process uses the slot at the moment.
        """
        status = self.slot.status(connection)
        messages = self._messages(status.current)
        trees = PartitionTrees(partitions(connection, self.slot.publication))
        changes = logged_changes(
            messages,
            _without_types,
            after=self.log.queries.landed_through,
            marks=Marks(self.log.secret()),
            trees=trees,
        )
        return next((change for change in changes if change.table == table and change.kind in OF_ROWS), None)

    def _land_once(self, connection: Connection, up_to: int, at_least: int, marks: Marks) -> tuple[int, bool]:
        """Land once; return how far the log is landed, and whether that is all up to an LSN."""
        # The order matters: another process may land and advance between the two.
        confirmed = self.slot.status(connection).confirmed
        after = self.log.queries.landed_through
        if confirmed > after:
            raise ChangeFeedGapError(
                f"something else consumed changes of replication slot {self.slot.name}: its position is after what "
                f"{self.log.location} has. Let only this package use the slot, and rebuild the job"
            )
        through = min(up_to, after + MOST_BYTES)
        if through <= after:
            self._require_reached(connection, after)
            return after, True
        repeated, identified_otherwise = set[tuple[int, int]](), set[int]()
        messages = noting_repeated(self._messages(through), after, repeated)
        messages = noting_identities(messages, identified_otherwise)
        trees = PartitionTrees(partitions(connection, self.slot.publication))
        published = Published.now(connection, self.slot.publication)
        looks = Looks.at(
            connection, published.tables, self.table_of(connection), self.key, self.log.queries.published_as
        )
        news = published.news(self.log.queries.published_as)
        # A generator inside of deltalake's write cannot read the log.
        lost = [*self._not_logged(trees, published), *looks.rows]
        last_looks = {table: looks.last_look(table) for table in {*map(str, published.tables), *looks.tables}}

        def numbers_of(relation: Relation) -> Mapping[str, str]:
            root = trees.table_of(relation.oid)
            return logged_numbers(connection, relation, int(root), last_looks.get(root))

        def not_logged() -> Iterator[Fields]:
            yield from lost
            yield from looks.rows_without_key(map(trees.table_of, identified_otherwise))

        changes = chain(
            logged_changes(
                messages,
                lambda relation: _types_of(connection, relation),
                after=after,
                numbers_of=numbers_of,
                trees=trees,
                marks=marks,
            ),
            _numbered(not_logged(), connection, after=after, through=through),
        )
        # The transactions that the log has come before the first one that it does not have.
        first = next(changes, None)
        self._require_same_transactions(repeated, confirmed, after)
        if first is None and not news and not looks.matters and through - after <= IDLE_BYTES and after >= at_least:
            return after, True
        reached(CrashPoint.BEFORE_LANDING_COMMIT)
        self.log.land(
            chain([first] if first else [], changes), after=after, through=through, published={**news, **looks.news}
        )
        reached(CrashPoint.AFTER_LANDING_COMMIT)
        self.slot.advance(connection, through)
        logger.debug("%s: landed changes through LSN %d in %s", self.slot.name, through, self.log.location)
        return through, through == up_to

    def _messages(self, up_to: int) -> Iterator[Message | None]:
        """Yield what the slot has before an LSN, through a session of its own."""
        with self.database.session() as connection:
            try:
                yield from map(decode, self.slot.peek(connection, up_to))
            except NOT_CONVERTED:
                # Some bytes have no counterpart in Unicode, maybe in a column that no job uses. Nothing has come yet:
                # the server decodes all messages before it returns the first.
                texts = ServerTexts(connection)
                yield from (decode(message, texts.text) for message in self._unconverted(up_to))

    def _unconverted(self, up_to: int) -> Iterator[bytes]:
        with self.database.session() as connection:
            yield from self.slot.peek_unconverted(connection, up_to)

    def _require_reached(self, connection: Connection, landed: int) -> None:
        """
        Refuse a server whose log ends before what is landed.

        :raises UpstreamReplacedError: with what to do.
        """
        current = self.slot.status(connection).current
        if current < landed:
            raise self._other_history(f"ends with offset {current}, but changes up to {landed} were landed")

    def _require_same_transactions(self, found: set[tuple[int, int]], confirmed: int, landed: int) -> None:
        """
        Refuse a server that returns other transactions than those that are landed.

        :param found: offset and id of the transactions that it returns again.
        """
        if confirmed >= landed:
            return
        since = max(confirmed, self.log.queries.complete_after())
        known = self.log.queries.transactions_within(since, landed)
        different = known ^ {transaction for transaction in found if transaction[0] > since}
        if different:
            offset, _ = min(different)
            raise self._other_history(f"differs from what was landed, from offset {offset} on")

    def _other_history(self, problem: str) -> UpstreamReplacedError:
        return UpstreamReplacedError(
            f"{self.database.connection_id}: the database's log {problem} in {self.log.location}; the server was "
            "restored from an older copy, or a standby without its newest changes took over: rebuild the job"
        )

    def _not_logged(self, trees: PartitionTrees, published: Published) -> list[Fields]:
        """Return the fields of rows for what the database does not log: partitions and tables that came or went."""
        known = {table: self.log.queries.partitions_of(table) for table in map(str, trees.by_root)}
        return [*trees.differences(known), *published.differences(self.log.queries.published_as)]


def _numbered(rows: Iterable[Fields], connection: Connection, *, after: int, through: int) -> Iterator[LoggedChange]:
    """
    Yield rows for what the database does not log.

    What is known now is so from the end of the landing on. What was lost is lost anywhere in it, so it is noted
    where the landing begins: a window that ends before the landing does needs it, too.
    """
    now = None
    for number, fields in enumerate(rows):
        now = now or connection.execute("SELECT now()").fetchall()[0][0]
        yield LoggedChange(
            offset=through if fields["kind"] is LoggedKind.PARTITIONS else after + 1,
            number=_LAST + number,
            transaction=0,
            committed_at=now,
            **fields,
        )


def _without_types(relation: Relation) -> Mapping[str, str]:
    return {column.name: UNKNOWN_TYPE for column in relation.columns}


def _types_of(connection: Connection, relation: Relation) -> Mapping[str, str]:
    """Return the types of a table's columns, as the change log records them."""
    wanted = {(column.type_oid, column.type_modifier) for column in relation.columns}
    types = resolve_types(connection, wanted)
    named = {}
    for column in relation.columns:
        found = types.get((column.type_oid, column.type_modifier))
        named[column.name] = UNKNOWN_TYPE if found is None else found.delta_type or f"<{found}>"
    return named
