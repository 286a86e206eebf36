"""
The settings that a session may keep; all others are reset to Spark's default.

A result must not depend on the session that an epoch runs in (I2). Spark and Delta have more than a thousand settings,
and new versions add more. So this module lists those that affect **no** result: how work is distributed, cached,
displayed and logged. Every other setting of a session is reset to Spark's default, so an unknown setting does no harm.
"""

from __future__ import annotations

from collections.abc import Iterable

OURS = {
    # A missing file must be an error: skipping it would silently lose its rows (I6).
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    # Expressions must mean the same on every machine (I2). The default time zone is the machine's, and the default of
    # ANSI mode depends on an environment variable.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    # A name or a text may look like a variable, such as ${HOME}, and must not be replaced.
    "spark.sql.variable.substitute": "false",
    # By default, Delta reads no change feed across a column that was renamed, dropped or widened, used or not. The used
    # columns are checked in each version before it is read.
    "spark.databricks.delta.changeDataFeed.unsafeBatchReadOnIncompatibleSchemaChanges.enabled": "true",
    # From a condition on a key, Delta derives one on a partition column that is generated from it. It computes that
    # column in the session's zone, and the writer's zone was another, so rows would be left out.
    "spark.databricks.delta.generatedColumn.partitionFilterOptimization.enabled": "false",
    # Parquet has no statistics of the default type, INT96.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Rows that are in memory at a time. With the default of 4,096, rows of a megabyte do not fit; smaller batches took
    # no longer.
    "spark.sql.parquet.columnarReaderBatchSize": "16",
    # A reader has a whole page of a file in memory. By default, a page has at least 100 rows.
    "parquet.page.size.row.check.min": "1",
    # The default is ten million.
    "spark.databricks.delta.maxCommitAttempts": "20",
}
"""Settings that every session gets, because Spark's default is another one or depends on the machine."""

_GROUPS = ("spark.sql.", "spark.databricks.delta.")

_SPARK = """
    adaptive. autoBroadcastJoinThreshold broadcastExchange. broadcastTimeout cache. catalog. catalogImplementation cbo.
    classic. cli. codegen. columnVector. connect. dataframeCache. debug defaultCacheStorageLevel defaultSizeInBytes
    defaultUrlStreamHandlerFactory. error. event. exchange. execution.arrow.compression. execution.arrow.enabled
    execution.arrow.fallback.enabled execution.arrow.localRelationThreshold execution.arrow.max execution.arrow.pyspark.
    execution.broadcastHashJoin. execution.interruptOnCancel execution.pyspark. execution.rangeExchange.
    execution.removeRedundantProjects execution.removeRedundantSorts execution.replaceHashWithSortAgg
    execution.reuseSubquery  execution.topKSortFallbackThreshold
    execution.useObjectHashAggregateExec execution.usePartitionEvaluator expressionTreeChangeLog.
    extendedExplainProviders extensions filesourceTableRelationCacheSize files.maxPartitionBytes
    files.maxPartitionNum files.minPartitionNum files.maxRecordsPerFile files.openCostInBytes globalTempDatabase hive.
    inMemoryColumnarStorage. inMemoryTableScanStatistics. join. leafNodeDefaultParallelism
    legacy.sessionInitWithConfigDefaults lightweightPlanChangeValidation limit. maven. maxBroadcastTableSize
    maxConcurrentOutputFileWriters maxMetadataStringLength maxPlanStringLength maxSinglePartitionBytes
    metadataCacheTTLSeconds nameResolutionLog. objectHashAggregate. optimizer.dynamicPartitionPruning.
    optimizer.excludedRules
    optimizer.inSet optimizer.maxIterations optimizer.runtime. optimizer.runtimeFilter. parquet.aggregatePushdown
    parquet.columnarReaderBatchSize parquet.compression.codec parquet.enable parquet.fieldId.read.enabled
    parquet.fieldId.write.enabled parquet.filterPushdown parquet.output.committer.class
    parquet.pushdown.inFilterThreshold pipelines. planChangeLog. planChangeValidation planner. pyspark.dataSource.
    pyspark.jvmStacktrace. pyspark.udf. queryExecutionListeners redaction. repl. requireAllClusterKeysForCoPartition
    requireAllClusterKeysForDistribution resultQueryStage. session.localRelation shuffle. shuffleDependency.
    shuffleExchange. shuffledHashJoinFactor sort. sortMergeJoinExec. sources.bucketing. sources.commitProtocolClass
    sources.disabledJdbcConnProviderList sources.fileCompressionFactor sources.ignoreDataLocality
    sources.outputCommitterClass sources.parallelPartitionDiscovery. sources.schemaStringLengthThreshold sources.v2.
    stackTracesInDataFrameContext statistics. streaming. subexpressionElimination. subquery. thriftServer.
    thriftserver. ui. unionOutputPartitioning warehouse. window. windowExec. artifact.
""".split()

_DELTA = """
    autoCompact. checkpoint. checkpointV2.threadpool.size clusteredTable.numClusteringColumnsLimit
    command.fileMaterializationLimit. commitInfo.userMetadata commitLock.enabled commitMetrics.
    coordinatedCommits.getCommits.threadPoolSize catalog.update. delta.log. history. lastCommitVersionInSession
    maxSnapshotLineageLength merge.materializeSource.maxAttempts merge.materializeSource.rddStorageLevel
    merge.repartitionBeforeWrite.enabled optimize. optimizeWrite. properties.defaults. retentionDurationCheck.enabled
    snapshot.logging. snapshotCache. snapshotLoading.maxRetries snapshotPartitions stats.collect stats.limitPushdown.
    stats.skipping testOnly. vacuum. write.txnAppId write.txnVersion writeChecksumFile.
""".split()

_WITHOUT_EFFECT = tuple(
    f"{group}{name}" for group, names in zip(_GROUPS, (_SPARK, _DELTA), strict=True) for name in names
)


def affects_no_result(name: str) -> bool:
    """Return whether a session may keep its value of a setting."""
    return not name.startswith(_GROUPS) or name.startswith(_WITHOUT_EFFECT)


def settings_to_reset(names: Iterable[str]) -> list[str]:
    """Return a session's settings that are reset to Spark's default."""
    return sorted(name for name in names if name not in OURS and not affects_no_result(name))
