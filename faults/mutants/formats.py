"""Mistakes in decoding records: numbers and times that become others without a word."""

from __future__ import annotations

from faults.mutants.killers import AVRO_AGREEMENT, PROTOBUF_WIRE, STREAMED_APPEND
from faults.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        name="unit-of-the-reader",
        breaks="A time that Avro wrote in milliseconds is read as one in microseconds.",
        invariant="I6",
        file="airflow_backfill_provider/sources/shared/formats/avro_agreement.py",
        old="if None not in units and units[0] != units[1]:",
        new="if None in units and units[0] != units[1]:",
        killers=(f"{AVRO_AGREEMENT}::test_other_units_and_scales_are_a_conflict",),
    ),
    Mutant(
        name="decimals-of-64-bits",
        breaks="Spark cuts the bytes of a decimal of Avro to 64 bits.",
        invariant="I6",
        file="airflow_backfill_provider/sources/shared/formats/avro_agreement.py",
        old='"precision": _SHORT_DIGITS + 1',
        new='"precision": _SHORT_DIGITS',
        killers=(f"{AVRO_AGREEMENT}::test_decimals_of_few_digits_are_read_with_so_many_that_spark_cuts_none",),
    ),
    Mutant(
        name="numbers-of-32-bits",
        breaks="A number of 64 bits is cut to the 32 bits of its field in Protobuf.",
        invariant="I6",
        file="airflow_backfill_provider/sources/shared/formats/protobuf_wire.py",
        old="return kind in _SIGNED and _HALF <= number < _NEGATIVE",
        new="return kind in _SIGNED and _WHOLE <= number < _HALF",
        killers=(f"{PROTOBUF_WIRE}::test_values_are_the_same_or_refused",),
    ),
    Mutant(
        name="streamed-over-others",
        breaks="A landing that was overtaken appends its changes a second time.",
        invariant="I5",
        file="airflow_backfill_provider/lake/tables/streamed_append.py",
        old="table.create_write_transaction([added]",
        new="DeltaTable(location).create_write_transaction([added]",
        killers=(f"{STREAMED_APPEND}::test_a_table_that_has_gone_on_is_not_appended_to",),
    ),
)
