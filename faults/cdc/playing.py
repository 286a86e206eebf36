"""Plays a case: draws a table, lets a writer write to it, runs epochs of its jobs, and ends it."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from pathlib import Path

from pyspark.sql import SparkSession

from faults.campaign import Outcome
from faults.cdc.case_database import CaseDatabase, drawn_settings
from faults.cdc.drawing import DrawnTable, a_table
from faults.cdc.endings import Endings
from faults.cdc.epochs import Epochs
from faults.cdc.harm import Harm
from faults.cdc.history import History, record
from faults.cdc.jobs import lakehouses
from faults.cdc.truth import Truth
from faults.cdc.writer import WriterProcess
from tests.connect_server import address_of
from tests.postgres_server import PostgresServer

ROUNDS = 8

_numbers = itertools.count()


class Game:
    """
    A case.

    :param seed: decides on the table and the writes.
    :param chance: decides on the faults.
    :param server: the server of all cases.
    :param folder: a folder for the views.
    """

    def __init__(
        self, seed: str, chance: random.Random, server: PostgresServer, spark: SparkSession, folder: Path
    ) -> None:
        self.seed = seed
        self.chance = chance
        self.spark = spark
        self.table: DrawnTable = a_table(random.Random(seed))
        name = f"case_{next(_numbers)}"
        self.database = CaseDatabase(server, name, drawn_settings(random.Random(seed)))
        self.history = History(f"audit_{name}")
        self.jobs = lakehouses(self.table, self.database, spark, folder)
        self.truth = Truth(self.table, self.database, self.history, self.jobs, spark)
        self.done: Counter[str] = Counter()

    def play(self) -> Outcome:
        """Play the case."""
        self.database.create()
        with self.database.connect() as connection:
            for statement in self.table.statements():
                connection.execute(statement)
            record(connection, self.table)
            connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [self.history.slot])
        writer = WriterProcess(self.seed, self.database.parameters())
        try:
            self._play(writer)
        except Exception as error:
            error.add_note(f"drawn: {self.table}; done: {dict(self.done)}")
            raise
        finally:
            writer.stop()
            self.database.drop()
        return Outcome(checks=self.truth.checks, about=f"{self._about()}: {dict(self.done)}")

    def _about(self) -> str:
        table = self.table
        facts = {
            ", ".join(column.type for column in table.key): True,
            table.identity: True,
            "partitioned": table.partitioned,
            "long": table.long,
            "truncate": table.truncates,
            f"{len(table.jobs)} jobs": True,
            f"columns named {table.named!r}": True,
            f"{len(self.database.settings)} settings of the role": True,
        }
        return "; ".join(fact for fact, is_so in facts.items() if is_so)

    def _play(self, writer: WriterProcess) -> None:
        harm = Harm(self.chance, self.database, address_of(self.spark), self.done)
        epochs = Epochs(self.chance, self.database, writer, self.jobs, self.truth, harm)
        writer.do("fill")
        writer.do("calm")
        for job in self.jobs:
            job.create(**job.fields)
        writer.do("write")
        epochs.run_some(ROUNDS)
        epochs.require_right()
        writer.do("write")
        epochs.run_some(3)
        epochs.require_right()
        Endings(self.table, self.database, writer, epochs, self.done).play(self.chance)
        self.done["transactions"] = writer.do("pause")
