"""The campaign of shapes on real Spark: plain cases end right, and a lie of any kind counts as wrong."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from faults.campaign import WrongError
from faults.shapes.case import Case, Column, Gap
from faults.shapes.file_writers import LogWriter
from faults.shapes.playing import UNANSWERABLE, Game
from tests.variants import mostly_exhaustive

pytestmark = pytest.mark.spark

ID = Column(name="id", type="long")
TEXT = Column(name="text", type="string")
CHANGED = Gap(changes=("mixture",))


def case_of(writer="log", *columns, query="SELECT id, upper(text) AS loud FROM upstream", job=None, **changes):
    fields = {
        "rows_seed": 5,
        "writer": writer,
        "columns": (ID, TEXT, *columns),
        "key": (("id", False),),
        "rows": 20,
        "files": 2,
        "in_order": True,
        "statistics": "exact" if writer == "log" else "",
        "job": {
            "query": query,
            "strategy": "no_shuffle",
            "visibility": "every_epoch",
            "vnode_count": 2,
            "rate_limit": 15,
            **(job or {}),
        },
        "gaps": (Gap(), CHANGED),
        "beyond": (CHANGED,),
        "verified": False,
    }
    return Case(**{**fields, **changes})


PLAIN = {
    "a log by hand, its columns mapped": case_of(mapping="name", odd_files="reordered"),
    "delta-rs, an arrangement, a settled time zone": case_of(
        "delta-rs",
        job={"strategy": "arrangement"},
        gaps=(Gap(settings={"spark.sql.session.timeZone": "Asia/Kolkata"}),),
    ),
    "Spark, partitions and a generated column": case_of(
        "spark",
        Column(name="region", type="string", few=True),
        Column(name="seventh", type="integer", computed="CAST(`id` % 7 AS INT)"),
        layout="PARTITIONED BY (`region`)",
        partition="region",
        query="SELECT *, seventh + 1 AS eighth FROM upstream",
    ),
    "converted files, part of the keys": case_of("convert", statistics="spark", job={"restrict_after_row": 4}),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", PLAIN)
def test_a_plain_case_ends_right(spark: SparkSession, lake, name):
    case = PLAIN[name]
    outcome = Game(case, spark, lake).play()
    assert (outcome.result, outcome.about) == ("right", case.summary())
    assert outcome.checks >= 2


@pytest.mark.exhaustive
def test_a_query_that_spark_refuses_does_not_count_as_wrong(spark: SparkSession, lake):
    failing = case_of(query="SELECT id, CAST(text AS INT) AS number FROM upstream")
    assert Game(failing, spark, lake).play().result in {"QueryFailedError", UNANSWERABLE}


class WithLies(Game):
    """
    A game with one false statement of the package, or one wrong row.

    :param lie: which one.
    """

    def __init__(self, case, spark, folder, *, lie):
        super().__init__(case, spark, folder)
        self.lie = lie
        if lie == "a row that no file has":
            self._writer = Forgetful(case, folder / "orders")

    def _require(self, barrier, commit, before):
        counts = {"an epoch that says that it read nothing": 0, "a row too many is counted": 16}
        if self.lie in counts:
            commit = commit.model_copy(update={"snapshot_read_row_count": counts[self.lie]})
        if self.lie == "a row is missing":
            self._spoil("DELETE FROM {view} WHERE id = {id}")
        super()._require(barrier, commit, before)

    def _require_end(self):
        if self.lie == "a value differs at the end":
            self._spoil("UPDATE {view} SET loud = 'QUIET' WHERE id = {id}")
        super()._require_end()

    def _spoil(self, statement):
        # Delta takes no subquery there.
        found = self.lakehouse.view().selectExpr("min(id)").collect()[0][0]
        self.lakehouse.sql(statement.replace("{id}", f"{found}"))


class Forgetful(LogWriter):
    """A writer that forgets a row."""

    def make(self, batches):
        super().make([batch[:-1] for batch in batches])


LIES = {
    "a row that no file has": "counted|missing",
    "an epoch that says that it read nothing": "I4: epoch 1 read 0 rows although 20 were left",
    "a row too many is counted": "I2: epoch 1 counted 16 rows but read 15",
    "a row is missing": "I1: epoch 1: 1 rows missing, 0 unexpected, of 15",
    "a value differs at the end": "I1: at the end: 1 rows missing, 1 unexpected",
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("lie", mostly_exhaustive(LIES, ["a row that no file has", "a value differs at the end"]))
def test_a_lie_is_found_and_counts_as_wrong(spark: SparkSession, lake, lie):
    with pytest.raises(WrongError, match=LIES[lie]):
        WithLies(case_of(beyond=()), spark, lake, lie=lie).play()
