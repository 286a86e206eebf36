"""
A kind of source: what is registered, and all that the package knows of it.

It defines the fields of a job's upstream, opens it without Spark, and reads it on Spark. It also says what its half on
Spark needs and what errors of Spark mean, so that no code outside of the kind's folder has to know the kind.

A kind's module imports deltalake, database drivers and Spark inside its methods, because a scheduler loads it for every
DAG.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from airflow_backfill_provider.core.errors import BackfillError
from airflow_backfill_provider.core.job.upstream import UpstreamDefinition
from airflow_backfill_provider.sources.base import Source
from airflow_backfill_provider.sources.spark_failures import Refusal, SparkFailure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_backfill_provider.sources.reader import SourceReader

Defined = TypeVar("Defined", bound=UpstreamDefinition)
Opened = TypeVar("Opened", bound=Source)


class SourceKind(ABC, Generic[Defined, Opened]):
    """A kind of source: its definition of an upstream, the source that it opens, and its reader; one is registered."""

    name: ClassVar[str]
    """The kind's name in job definitions."""

    definition: ClassVar[type[UpstreamDefinition]]
    """The fields of a job's ``upstream`` of this kind."""

    spark_packages: ClassVar[Sequence[str]] = ()
    """
    What Spark needs in addition to its own jars to read upstreams of this kind, as coordinates of Maven; by default
    nothing.
    """

    refusals: ClassVar[Sequence[Refusal]] = ()
    """What the reader refuses about values and rows, in addition to what readers of any kind do."""

    @abstractmethod
    def open(self, upstream: Defined, storage_options: Mapping[str, str] | None = None) -> Opened:
        """
        Open an upstream, without reading anything yet.

        :param upstream: of :attr:`definition`.
        :param storage_options: options of the object store, as deltalake takes them.
        """

    def explained(self, failure: SparkFailure, what: str) -> BackfillError | None:
        """
        Return the error for users, if an error of Spark is one that only this kind of source knows.

        An example is a database that ends a connection over which rows were read. Each error of an epoch is shown to
        all kinds, so look for something that no other error has.

        :param what: the name of the epoch, for the message.
        :returns: ``None``, the default, if it is not.
        """
        del failure, what
        return None

    @abstractmethod
    def reader(self, spark: SparkSession, source: Opened) -> SourceReader:
        """
        Return the reader on Spark.

        :param source: as :meth:`open` returned it, or its :meth:`Source.as_created`.
        """
