"""
The errors of a backfill: one tree, and each class says whether trying again can help.

A message tells what is wrong, where, and what to do. It carries names, versions and paths, never row contents
or secrets.
"""

from __future__ import annotations


class BackfillError(Exception):
    """Root of everything this package raises on purpose."""

    retryable: bool = False
    """Whether the same call, made again later with nothing else changed, may succeed."""

    pinned_anew: bool = False
    """Whether an epoch that fails with it may succeed once it is pinned anew, as of a later version of the upstream."""


class InvalidJobError(BackfillError, ValueError):
    """The job's definition is wrong: a field, the query, or a combination of them."""


class InvalidPolicyError(BackfillError, ValueError):
    """The rule that says when to compact a table makes no sense."""


class UpstreamError(BackfillError):
    """The upstream table cannot be backfilled as it is."""

    pinned_anew = True


class UpstreamNotFoundError(UpstreamError):
    """There is no readable Delta table at the upstream's path."""

    pinned_anew = False


class ChangeDataFeedDisabledError(UpstreamError):
    """The upstream does not record its changes."""

    pinned_anew = False


class ChangeFeedGapError(UpstreamError):
    """Changes that an epoch needs are gone: log cleaned, files vacuumed, or the feed was off meanwhile."""


class UpstreamReplacedError(UpstreamError):
    """Another table lies at the upstream's path than the one the job was created on, or an older copy of it."""

    pinned_anew = False


class UpstreamSchemaChangedError(UpstreamError):
    """A column that the job uses was dropped, renamed or changed its type."""


class DuplicateKeyError(UpstreamError):
    """The upstream holds several rows with one key, so the key does not identify a row."""


class MissingRowsError(UpstreamError):
    """An epoch would leave another number of rows read than the upstream has: some are hidden, or were not counted."""


class MaterializedViewError(BackfillError):
    """The materialized view's path or table is not what the job may write to."""


class StateError(BackfillError):
    """The control tables cannot be used."""


class JobNotCreatedError(StateError):
    """The job has no control tables yet."""


class StateLayoutError(StateError):
    """The control tables were written by another version of this package, or are damaged."""


class StorageUnavailableError(BackfillError):
    """A table's storage does not answer, or refuses access; the table itself may be well."""

    retryable = True


class StorageOptionsError(BackfillError, ValueError):
    """The object store's options do not say the same to both readers of the tables, deltalake and Spark."""


class LocationNotAllowedError(BackfillError, ValueError):
    """A table of the job lies where this deployment lets no job read or write."""


class DataFileError(BackfillError):
    """A data file of a table is damaged or gone, so what it held cannot be known."""

    pinned_anew = True


class TableLogError(BackfillError):
    """A table's log is damaged, so what the table holds cannot be known."""


class JobCancelledError(BackfillError):
    """The job was cancelled; nothing is injected any more."""


class NotFinishedError(BackfillError):
    """Something that needs a completed backfill was asked of one that still goes on."""

    retryable = True


class ConcurrentUpdateError(BackfillError):
    """Somebody else changed a control table at the same moment, again and again."""

    retryable = True


class SparkUnavailableError(BackfillError):
    """Spark cannot be started here: no Java, no jars, or no spark-submit."""


class InvalidRemoteError(BackfillError, ValueError):
    """What is given as the address of a Spark Connect server is none."""


class SparkServerUnavailableError(BackfillError):
    """The Spark Connect server does not answer, or does not let this client in."""

    retryable = True


class SparkSettingError(BackfillError, ValueError):
    """Spark does not let a session have a setting that was asked for."""


class QueryFailedError(BackfillError):
    """The job's query fails on a row of the upstream, and will on every attempt of the epoch."""

    pinned_anew = True


class EpochFailedError(BackfillError):
    """The epoch's application ended without a commit; running the same barrier again is safe."""

    retryable = True


class EpochGivenUpError(EpochFailedError):
    """Another attempt gave the epoch up, so this one writes nothing; whoever asks again gets an epoch pinned anew."""


class NotVerifiedError(BackfillError):
    """A result of a verification was asked for, and there is none."""


class VersionGoneError(BackfillError):
    """A version that a verification compares can no longer be read; a new one compares what is there now."""


class VerificationFailedError(BackfillError):
    """A table could not be read to be compared, so nothing is known of it; the view may be right or wrong."""

    retryable = True


class ViewDiffersError(BackfillError):
    """The materialized view differs from its query."""


class CompactionFailedError(BackfillError):
    """A table was not compacted; its rows are as they were."""

    retryable = True
