"""The fields of ``upstream`` for a topic of a Kafka cluster."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, ClassVar, Self

from pydantic import Field, StrictStr, model_validator

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.upstream import KeyColumn, UpstreamDefinition
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.sources.shared.formats.definition import (
    DEFAULT_FORMAT,
    AvroFormat,
    ProtobufFormat,
    RecordFormat,
)
from airflow_backfill_provider.sources.shared.unreadable_records import UnreadableRecords
from airflow_backfill_provider.sources.split_offsets import ends_of

PARTITION, OFFSET = "partition", "offset"
"""The columns that identify a record."""


class LostRecords(StrEnum):
    """What an epoch does if records are gone that the job has not read, such as by the topic's retention."""

    FAIL = "fail"
    SKIP = "skip"


class KafkaUpstream(UpstreamDefinition):
    """
    A topic of a Kafka cluster.

    :param connection: id of an Airflow connection of the Kafka provider's type.
    :param topic: the topic's name.
    :param value: the format of the records' values; by default bytes.
    :param record_key: the format of the records' keys; by default bytes.
    :param unreadable_records: ``fail`` if an epoch fails when it uses a value or key that its format cannot read;
        ``dead_letter`` if the view leaves such records out, and a table of dead letters has them.
    :param lost_records: ``fail`` if an epoch fails when records are gone that the job has not read; ``skip`` if it goes
        on with the oldest ones that are left, and warns of what is missing.
    """

    kind: ClassVar[str] = "kafka"
    offset_name: ClassVar[str] = "position"
    lag_unit: ClassVar[str] = "record"
    appends_only: ClassVar[bool] = True

    connection: Annotated[StrictStr, Field(min_length=1)]
    topic: Annotated[StrictStr, Field(min_length=1)]
    value: RecordFormat = DEFAULT_FORMAT
    record_key: RecordFormat = DEFAULT_FORMAT
    unreadable_records: UnreadableRecords = UnreadableRecords.FAIL
    lost_records: LostRecords = LostRecords.FAIL
    key: tuple[KeyColumn, ...] = (KeyColumn(column=PARTITION), KeyColumn(column=OFFSET))
    distribution_key: tuple[StrictStr, ...] = (PARTITION,)

    @model_validator(mode="after")
    def _key_of_records(self) -> Self:
        for name, given in (("key", self.key), ("distribution_key", self.distribution_key)):
            if given != type(self).model_fields[name].default:
                raise InvalidJobError(
                    f"{name}: a record is identified by its partition and its offset, and distributed by its "
                    f"partition; leave {name} out"
                )
        return self

    @property
    def location(self) -> str:
        """The connection and the topic."""
        return f"{self.connection}: {self.topic}"

    @property
    def lists_unreadable(self) -> bool:
        """Whether records that cannot be read become dead letters."""
        return self.unreadable_records is UnreadableRecords.DEAD_LETTER

    @property
    def kept_for_job(self) -> str:
        """The dead letters, if the job has them."""
        return "the records that it cannot read" if self.lists_unreadable else ""

    def split_ends(self, offset: Offset) -> Mapping[int, int]:
        """Return for each partition the offset after its last record."""
        return ends_of(offset)

    @property
    def connection_ids(self) -> tuple[str, ...]:
        """The connections to the cluster and to the registries of schemas."""
        formats = (self.value, self.record_key)
        registries = (found.registry for found in formats if isinstance(found, AvroFormat | ProtobufFormat))
        return tuple(dict.fromkeys((self.connection, *(name for name in registries if name))))

    @property
    def files(self) -> Mapping[str, str]:
        """The files with the schemas of the records' values and keys."""
        named: dict[str, str] = {}
        for field, found in (("value", self.value), ("record_key", self.record_key)):
            if isinstance(found, AvroFormat) and found.schema_file is not None:
                named[f"upstream.kafka.{field}.schema_file"] = found.schema_file
            elif isinstance(found, ProtobufFormat):
                named[f"upstream.kafka.{field}.descriptor_file"] = found.descriptor_file
        return named
