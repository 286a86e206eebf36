"""
``tally``: the number of rows for each value of an expression, as an example of a shape whose units are groups.

All of the shape is in this folder. One line registers it, and lets it be asked before the package's own shape of
groups: ``KINDS.register(Tally(), before="group")``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.visibility import Visibility
from airflow_backfill_provider.core.scan.keys import KeyField, KeyOrder
from airflow_backfill_provider.shapes.base import Shape
from airflow_backfill_provider.shapes.queries import ShapedQuery, Units

if TYPE_CHECKING:
    from airflow_backfill_provider.shapes.base import ViewWriter, WriterContext

_TALLY = re.compile(r"SELECT (?P<group>.+) AS bucket, count\(\*\) AS n FROM upstream GROUP BY (?P=group)")


@dataclass(frozen=True)
class TallyQuery(ShapedQuery):
    """The number of rows of each bucket."""

    text: str
    group: str

    def columns_of(self, available: Sequence[str]) -> tuple[str, ...]:
        return tuple(name for name in available if name in re.findall(r"\w+", self.group))

    def old_columns(self, available: Sequence[str]) -> tuple[str, ...]:
        return self.columns_of(available)

    def render(self, relation: str, key: Sequence[str], upstream_names: Collection[str]) -> str:
        return self.text.replace("FROM upstream", f"FROM {relation}")

    def units(self, settings: JobSettings, *, by_key: bool) -> Units:
        order = KeyOrder((KeyField(name="bucket", type=settings.view_types["bucket"]),))
        return Units(order=order, outputs=("bucket",), hashed=None)

    def holds_distribution_key(self, settings: JobSettings) -> bool:
        return True


class Tally(Shape):
    """A row of the view for each value of an expression."""

    name: ClassVar[str] = "tally"
    strategies: ClassVar[frozenset[str] | None] = frozenset({"no_shuffle", "arrangement"})
    only_visibility: ClassVar[Visibility | None] = Visibility.EVERY_EPOCH
    single_part: ClassVar[bool] = True
    pins_columns: ClassVar[bool] = True

    def claims(self, text: str) -> bool:
        return "AS bucket" in text

    def query(self, text: str) -> TallyQuery:
        found = _TALLY.fullmatch(text)
        if found is None:
            raise InvalidJobError("query: a tally counts the rows of each bucket as n")
        return TallyQuery(text, found["group"])

    def writer(self, context: WriterContext) -> ViewWriter:
        from tests.toy_groups.writer import TallyWriter

        return TallyWriter(context, self.query(context.job.query))
