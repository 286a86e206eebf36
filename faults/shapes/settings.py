"""Settings of Spark sessions that change the meaning of SQL, and time zones."""

from __future__ import annotations

import random

SETTINGS: dict[str, tuple[str, ...]] = {
    "spark.sql.session.timeZone": ("America/Los_Angeles", "Asia/Kolkata", "Europe/Berlin", "+14:00"),
    "spark.sql.ansi.enabled": ("false",),
    "spark.sql.caseSensitive": ("true",),
    "spark.sql.parser.escapedStringLiterals": ("true",),
    "spark.sql.parser.quotedRegexColumnNames": ("true",),
    "spark.sql.ansi.doubleQuotedIdentifiers": ("true",),
    "spark.sql.ansi.enforceReservedKeywords": ("true",),
    "spark.sql.timestampType": ("TIMESTAMP_NTZ",),
    "spark.sql.mapKeyDedupPolicy": ("LAST_WIN",),
    "spark.sql.storeAssignmentPolicy": ("LEGACY", "STRICT"),
    "spark.sql.decimalOperations.allowPrecisionLoss": ("false",),
    "spark.sql.function.concatBinaryAsString": ("true",),
    "spark.sql.function.eltOutputAsString": ("true",),
    "spark.sql.legacy.timeParserPolicy": ("LEGACY", "EXCEPTION"),
    "spark.sql.legacy.sizeOfNull": ("true",),
    "spark.sql.legacy.castComplexTypesToString.enabled": ("true",),
    "spark.sql.legacy.exponentLiteralAsDecimal.enabled": ("true",),
    "spark.sql.legacy.literal.pickMinimumPrecision": ("false",),
    "spark.sql.legacy.negativeIndexInArrayInsert": ("true",),
    "spark.sql.legacy.followThreeValuedLogicInArrayExists": ("false",),
    "spark.sql.legacy.charVarcharAsString": ("true",),
    "spark.sql.legacy.typeCoercion.datetimeToString.enabled": ("true",),
    "spark.sql.legacy.setopsPrecedence.enabled": ("true",),
    "spark.sql.legacy.allowHashOnMapType": ("true",),
    "spark.sql.parquet.datetimeRebaseModeInRead": ("LEGACY", "EXCEPTION"),
    "spark.sql.parquet.datetimeRebaseModeInWrite": ("LEGACY", "EXCEPTION"),
    "spark.sql.parquet.int96RebaseModeInRead": ("LEGACY",),
    "spark.sql.parquet.binaryAsString": ("true",),
    "spark.sql.parquet.outputTimestampType": ("INT96", "TIMESTAMP_MILLIS"),
    "spark.sql.parquet.filterPushdown": ("false",),
    "spark.sql.parquet.fieldId.read.enabled": ("true",),
    "spark.sql.variable.substitute": ("true",),
    "spark.sql.json.filterPushdown.enabled": ("false",),
    "spark.sql.groupByOrdinal": ("false",),
    "spark.databricks.delta.stats.skipping": ("false",),
    "spark.databricks.delta.stats.collect": ("false",),
}
"""Unusual values by setting."""


def some_settings(random: random.Random) -> dict[str, str]:
    """Return one to three settings."""
    names = random.sample(sorted(SETTINGS), random.randint(1, 3))
    if random.random() < 0.3:
        names.append("spark.sql.session.timeZone")
    return {name: random.choice(SETTINGS[name]) for name in names}
