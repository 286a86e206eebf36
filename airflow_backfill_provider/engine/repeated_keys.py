"""
Keys with several rows in the upstream for some time, so that their changes cannot be netted.

The changes of such a key write or remove twice in succession, or remove another row than the one written last. Their
order does not show which row is left, but the upstream at the end of the window does. If it has at most one row of the
key, the owner has corrected the mistake, and that row is the net change. If it has several, the key is refused.

Streaming executors don't have this case: their upstream's primary key is unique.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.sources.shared.by_key import column
from airflow_backfill_provider.spark.job_rows import JobRows, literal
from airflow_backfill_provider.spark.net_changes import HAS_DOUBLE, KEY_APPEARED, ROWS_ADDED, last_of_versions


def resolve_doubtful(job_rows: JobRows, net: DataFrame, offset: Offset) -> DataFrame:
    """
    Replace the net changes of doubtful keys with the upstream's rows at the end of the window.

    :param net: net changes from :func:`~airflow_backfill_provider.spark.net_changes.net_changes`.
    :param offset: the end of the window.
    :raises DuplicateKeyError: if the upstream has several rows of a key.
    """
    own, names = job_rows.own, job_rows.key.names
    doubtful = F.col(own.named(HAS_DOUBLE))
    of_keys = own.numbered("doubtful", len(names))
    keys = net.filter(doubtful).select(*map(column, names)).toDF(*of_keys).distinct()
    left = job_rows.at(offset)
    left = left.join(keys, _same([*map(column, names)], [*map(F.col, of_keys)]), "left_semi")
    if job_rows.has_several(left):
        raise job_rows.duplicates()
    identity = job_rows.identity.names
    of_left = own.numbered("left", len(identity))
    row, exists = own.named("row"), own.named("exists")
    left = left.select(
        *(column(name).alias(alias) for name, alias in zip(identity, of_left, strict=True)),
        F.struct(*map(column, job_rows.columns)).alias(row),
        F.lit(1).alias(exists),
    )
    found = net.join(left, _same([*map(column, identity)], [*map(F.col, of_left)]), "left")
    is_left = F.col(exists).isNotNull()
    before = F.when(is_left, 1).otherwise(0) - F.col(own.named(ROWS_ADDED))
    replaced = {
        **{name: F.col(row).getField(name) for name in job_rows.columns if name not in names},
        own.is_upsert: is_left,
        own.appeared: before == 0,
        own.named(KEY_APPEARED): before == 0,
        own.named(HAS_DOUBLE): F.lit(False),
    }
    return found.select(
        *(
            F.when(doubtful, replaced[name]).otherwise(column(name)).alias(name) if name in replaced else column(name)
            for name in net.columns
        )
    )


def resolve_doubtful_versions(job_rows: JobRows, versions: DataFrame, offset: Offset) -> DataFrame:
    """
    Replace the changes of doubtful keys by one at the end of the window; before it, nothing is known of them.

    :param versions: changes from :func:`~airflow_backfill_provider.spark.net_changes.changes_by_version`.
    :param offset: the end of the window.
    :raises DuplicateKeyError: if the upstream has several rows of a key.
    """
    doubtful = F.col(job_rows.own.named(HAS_DOUBLE))
    net = last_of_versions(job_rows, versions.filter(doubtful))
    resolved = resolve_doubtful(job_rows, net, offset).withColumn(job_rows.change_offset, literal(offset))
    return versions.filter(~doubtful).unionAll(resolved.select(*map(column, versions.columns)))


def _same(left: list[Column], right: list[Column]) -> list[Column]:
    return [mine.eqNullSafe(theirs) for mine, theirs in zip(left, right, strict=True)]
