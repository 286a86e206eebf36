"""
The errors of a backfill: one tree, in which each class says whether a retry can help.

A message says what is wrong, where, and what to do. It contains names, versions and paths, never rows or secrets.
"""

from __future__ import annotations

_LONGEST = 2_000
"""How many characters of a message are shown; Spark's may quote whole plans."""


class BackfillError(Exception):
    """Root of all errors that this package raises on purpose."""

    retryable: bool = False
    """Whether the same call may succeed later although nothing else has changed."""

    gives_epoch_up: bool = False
    """Whether an epoch that fails with this error is given up, because a new barrier at a later offset may succeed."""

    def __str__(self) -> str:
        """Return the message in one line, without its middle if it is very long: what to do stands at its end."""
        message = " ".join(line for part in super().__str__().splitlines() if (line := part.strip()))
        if len(message) <= _LONGEST:
            return message
        return f"{message[: _LONGEST // 2]} … {message[-_LONGEST // 2 :]}"


class InvalidJobError(BackfillError, ValueError):
    """The job's definition is wrong: a field, the query, or a combination of them."""


class InvalidPolicyError(BackfillError, ValueError):
    """A compaction policy has a value that is out of range."""


class UpstreamError(BackfillError):
    """The upstream table cannot be backfilled as it is."""

    gives_epoch_up = True


class UpstreamNotFoundError(UpstreamError):
    """There is no readable table at the upstream's location."""

    gives_epoch_up = False


class ChangeDataFeedDisabledError(UpstreamError):
    """The upstream does not record its changes."""

    gives_epoch_up = False


class ChangeFeedGapError(UpstreamError):
    """Changes are gone, or were not recorded: a cleaned log, vacuumed files, no feed, a rewrite that moved values."""


class UpstreamReplacedError(UpstreamError):
    """The table at the upstream's path is not the one that the job was created on, or it is an older copy."""

    gives_epoch_up = False


class UpstreamSchemaChangedError(UpstreamError):
    """A column that the job uses was dropped or renamed, or has another type."""


class DuplicateKeyError(UpstreamError):
    """The upstream has several rows with the same key, so the key does not identify a row."""


class MissingRowsError(UpstreamError):
    """The number of rows read differs from the upstream's: statistics hide rows, or rows were not counted."""


class MaterializedViewError(BackfillError):
    """The job must not write to the materialized view's path or table."""


class CatalogError(BackfillError):
    """A name cannot be looked up in a catalog, or means something that cannot be used."""


class CatalogUnavailableError(CatalogError):
    """A catalog does not answer."""

    retryable = True


class StateError(BackfillError):
    """The control tables cannot be used."""


class JobNotCreatedError(StateError):
    """The job has no control tables yet."""


class StateLayoutError(StateError):
    """The control tables were written by another version of this package, or are damaged."""


class StorageUnavailableError(BackfillError):
    """A table's storage does not answer or refuses access; the table itself may be intact."""

    retryable = True


class UpstreamUnavailableError(BackfillError):
    """The system of the upstream does not answer, or ended the connection; nothing is lost, and a retry may help."""

    retryable = True


class UpstreamRefusedError(BackfillError):
    """The system of the upstream refuses what a job needs, such as a login, a right or a setting."""


class DatabaseUnavailableError(UpstreamUnavailableError):
    """The upstream's database does not answer, or ended the connection; nothing is lost, and a retry may help."""


class DatabaseRefusedError(UpstreamRefusedError):
    """The upstream's database refuses what a job needs, such as a login, a right or a setting."""


class KafkaUnavailableError(UpstreamUnavailableError):
    """The upstream's Kafka cluster does not answer, or has no leader; nothing is lost, and a retry may help."""


class KafkaRefusedError(UpstreamRefusedError):
    """The upstream's Kafka cluster refuses what a job needs, such as a login or a right."""


class RegistryUnavailableError(UpstreamUnavailableError):
    """The schema registry of the upstream's records does not answer; nothing is lost, and a retry may help."""


class RegistryRefusedError(UpstreamRefusedError):
    """The schema registry of the upstream's records refuses what a job needs, or lacks a schema."""


class UnsupportedValueError(UpstreamError):
    """A value of the upstream has no counterpart in the type of the view's column, such as a date at infinity."""


class StorageOptionsError(BackfillError, ValueError):
    """The object store's options differ in meaning between the two readers of the tables, deltalake and Spark."""


class UnsafeCommitsError(BackfillError):
    """Spark's commits to a table in an object store may be lost: it was started without a suitable log store."""


class LocationNotAllowedError(BackfillError, ValueError):
    """A table or a file of the job lies outside of the locations that this deployment allows."""


class ConnectionNotAllowedError(BackfillError, ValueError):
    """The job names a connection that this deployment does not allow."""


class DataFileError(BackfillError):
    """A data file of a table is damaged or missing, so its rows are unknown."""

    gives_epoch_up = True


class TableLogError(BackfillError):
    """A table's log is damaged, so the table's content is unknown."""


class JobCancelledError(BackfillError):
    """The job was cancelled; no barrier is injected any more."""


class NotFinishedError(BackfillError):
    """An operation needs a finished backfill, but this one still runs."""

    retryable = True


class UpstreamNotFinishedError(NotFinishedError):
    """The upstream is the view of another job, which has not finished it; this job waits for that one."""


class ConcurrentUpdateError(BackfillError):
    """Concurrent writers changed a control table on every attempt."""

    retryable = True


class SparkUnavailableError(BackfillError):
    """Spark cannot be started on this machine: Java, the jars or spark-submit is missing."""


class InstallationError(BackfillError):
    """The installation lacks files of this package, or has none for this Python."""


class InvalidRemoteError(BackfillError, ValueError):
    """The address of a Spark Connect server is invalid."""


class SparkServerUnavailableError(BackfillError):
    """The Spark Connect server does not answer, or refuses this client."""

    retryable = True


class SparkSettingError(BackfillError, ValueError):
    """Spark refuses a requested setting of a session."""


class QueryFailedError(BackfillError):
    """The job's query fails on a row of the upstream, so every attempt of the epoch fails."""

    gives_epoch_up = True


class EpochFailedError(BackfillError):
    """The epoch's Spark application ended without a commit; running the same barrier again is safe."""

    retryable = True


class EpochGivenUpError(EpochFailedError):
    """Another attempt gave the epoch up, so this one writes nothing. The next request pins a new epoch."""


class NotVerifiedError(BackfillError):
    """A verification's result was requested, but there is none."""


class VersionGoneError(BackfillError):
    """A version of a table that is compared or put back can no longer be read."""


class VerificationFailedError(BackfillError):
    """A table could not be read for a comparison, so it is unknown whether the view is right."""

    retryable = True


class ViewDiffersError(BackfillError):
    """The materialized view differs from its query."""


class AdoptedTableDiffersError(ViewDiffersError):
    """
    A table that should become the view differs from the query.

    :param keys: a line for each of the first keys that differ, for the command line; a message never has keys.
    """

    def __init__(self, message: str, keys: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.keys = keys


class CompactionFailedError(BackfillError):
    """A table was not compacted; its rows are unchanged."""

    retryable = True


class RowNotTraceableError(BackfillError):
    """To find out why a view has a row, or has not, takes Spark; the message has the cost."""
