"""
Makes the tables of ``reference.md`` from the code that they describe.

``python -m docs.reference_tables --write`` puts them into the page, ``--check`` compares them with it. Starts neither
Spark nor Airflow's processes. Where the code doesn't say what something means, this file does, and fails if it says
too little or too much.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import typer
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from airflow_backfill_provider.core import errors
from airflow_backfill_provider.core.barrier import Barrier, Repair, UpstreamWindow
from airflow_backfill_provider.core.epoch_record import EpochCommit, EpochReport
from airflow_backfill_provider.core.job import BackfillJob, KeyBounds, Restriction
from airflow_backfill_provider.core.keys import KeyField, KeyOrder
from airflow_backfill_provider.core.settings import SettingsChange
from airflow_backfill_provider.core.stages import STAGES
from airflow_backfill_provider.core.status import JobStatus, JobSummary, VnodeSpan
from airflow_backfill_provider.core.upstream import KeyColumn
from airflow_backfill_provider.core.verified_state import VerifiedState
from airflow_backfill_provider.get_provider_info import get_provider_info
from airflow_backfill_provider.sources.delta import DeltaUpstream
from airflow_backfill_provider.state import records, verifications
from docs.generated import main, table

PAGE = Path(__file__).with_name("reference.md")

JOB_TYPES = {
    "name": "text of `a`–`z`, `0`–`9`, `_`; at most 100",
    "upstream": "mapping, see below",
    "materialized_view": "absolute path or URI",
    "query": "text",
    "strategy": "`auto`, `no_shuffle` or `arrangement`",
    "vnode_count": "whole number, 1 to 32768",
    "paused": "true or false",
    "rate_limit": "whole number from 0, or null",
    "parallelism": "whole number, 1 to `vnode_count`; above 1 only with `arrangement` or `auto`",
    "visibility": "`every_epoch` or `on_finish`; with `on_finish` the distribution key must be of key columns, unless "
    "the strategy is `no_shuffle`",
    "keep_arrangement": "true or false",
    "restrict_to": "mapping, see below",
    "state": "absolute path or URI",
    "table_properties": "mapping of text to text",
}
JOB_DEFAULTS = {"state": "`_backfill/<name>` beside the view", "table_properties": "none", "restrict_to": "all of it"}

UPSTREAM_FIELDS = {
    "path": ("absolute path or URI", "the Delta table to read; it must have a change data feed"),
    "key": ("list of columns", "the columns that identify a row, most significant first; see below"),
    "distribution_key": (
        "list of column names",
        "the columns that a vnode is computed from; `no_shuffle` needs no vnodes, but for `restrict_to` and repairs",
    ),
}
UPSTREAM_DEFAULTS = {"distribution_key": "the key"}

KEY_FIELDS = {
    "column": ("text", "the column's name, as the upstream spells it"),
    "descending": ("true or false", "read from the largest value to the smallest; nulls still come first"),
}

RESTRICTION_FIELDS = {
    "vnodes": ("list of numbers and ranges", "the vnodes that the view is about, such as `[0-15, 20]`"),
    "keys": ("mapping, see below", "a range of keys"),
}
RESTRICTION_DEFAULTS = {"vnodes": "all", "keys": "all"}

BOUNDS_FIELDS = {
    "after": ("list of values", "exclusive lower bound: a value for each key column, or for the leading ones"),
    "up_to": ("list of values", "inclusive upper bound likewise"),
}
BOUNDS_DEFAULTS = {"after": "from the first key", "up_to": "to the last key"}

STATUS_FIELDS = {
    "name": "the job's name",
    "strategy": "the chosen strategy; never `auto`",
    "paused": "whether the job is paused",
    "cancelled": "whether the job was cancelled",
    "rate_limit": "snapshot rows per epoch; null is unlimited, 0 reads none",
    "vnodes": "the number of vnodes by progress: `total`, `not_started`, `in_progress`, `completed`",
    "upstream_latest_version": "the upstream's newest offset",
}

SETTINGS_COLUMNS = {
    "sequence": "number of the change, from 1; the highest one is in force",
    "change": ", ".join(f"`{change.value}`" for change in SettingsChange),
    "paused": "whether barriers read no snapshot",
    "rate_limit": "snapshot rows per epoch; null is unlimited, 0 reads none",
    "cancelled": "whether no barrier is injected any more",
    "finished_epoch": "the epoch with which the view was marked as finished; null before",
    "incarnation": "changes with every rebuild",
    "requested_by": "a task run of Airflow, or `user@host`",
    "requested_at": "when",
    "record": "the whole record as JSON: the definition, the upstream's table id and columns, and the above",
}
LOG_COLUMNS = {
    "epoch": "the epoch",
    "event": "`injected`: the barrier is pinned. `reported`: one of the task runs that share the epoch did its part. "
    "`committed`: the epoch is committed. `failed`: an attempt failed. `given_up`: the epoch was given up, and "
    "[its rest is never written](concepts.md#epochs-that-are-given-up)",
    "incarnation": "the incarnation that the epoch belongs to",
    "from_version": "the window's `from_offset` as a number. In the first epoch -1; under `arrangement` the version "
    "that the arrangement was created from",
    "to_version": "the window's `to_offset` as a number",
    "mutations": "changes of the settings that take effect with the barrier",
    "requested_by": "who requested the barrier",
    "snapshot_read_row_count": "upstream rows in the chunk, before the query's filter",
    "upstream_output_row_count": "net changes that passed the position filter, before the query's filter",
    "watermark": "commit time of the window's `to_offset`",
    "seconds": "wall-clock seconds of the attempt that reported or committed; for parallel parts, those of the slowest",
    "at": "when it was pinned, reported, committed or given up, or when the attempt failed",
    "record": "the whole barrier, report, commit or failure as JSON; for `given_up`, the reduced barrier and its "
    "commit",
}
STATE_COLUMNS = {
    "vnode": "the virtual node, from 0",
    "order_id": "one column for each key column, with its name and type: the position. A name that the table already "
    "uses gets the prefix `key_`",
    "has_position": "whether the key columns are a position; nulls could also be the position of a null key",
    "backfill_finished": "whether the vnode is Completed",
    "row_count": "snapshot rows read so far: under `no_shuffle` **by the whole job**, under `arrangement` of the vnode",
    "epoch": "the epoch that wrote the row",
    "incarnation": "the incarnation that it belongs to",
}

VERIFICATION_COLUMNS = {
    "number": "number of the verification, from 1",
    "event": "`asked`: a verification is requested. `begun`: what is compared is pinned. `compared`: a step is "
    "completed",
    "incarnation": "the incarnation that is verified",
    "epoch": "the epoch that is verified",
    "upstream_version": "the upstream's offset, as a number, that the view is compared at",
    "view_version": "the version of the view that is compared",
    "first_vnode": "the first vnode of the step",
    "last_vnode": "the last vnode of the step",
    "expected_rows": "rows that the query returns in these vnodes",
    "found_rows": "rows that the view has in these vnodes",
    "differing_vnodes": "the number of vnodes that differ",
    "differing_keys": "the number of keys that differ",
    "requested_by": "who requested the verification",
    "at": "when it was requested or begun, or when the step was completed",
    "record": "the request, what is compared, or the step's result, as JSON",
}

WHAT_TO_DO = {
    "InvalidJobError": "correct the field that it names; [rebuild](how-to/rebuild.md) if the job exists",
    "UpstreamError": "do what the message says",
    "UpstreamNotFoundError": "check `upstream.path`, and the storage options of an object store",
    "ChangeDataFeedDisabledError": "run the `ALTER TABLE` in the message; [rebuild](how-to/rebuild.md) if the feed was "
    "turned off after the job was created",
    "ChangeFeedGapError": "[rebuild](how-to/rebuild.md), and [keep changes longer](how-to/set-retention.md)",
    "UpstreamReplacedError": "[rebuild](how-to/rebuild.md) if the present table is the right one; else restore it",
    "UpstreamSchemaChangedError": "undo the change, or adapt the query and [rebuild](how-to/rebuild.md)",
    "MissingRowsError": "have Spark rewrite the upstream's files, and [repair](how-to/repair-rows.md) all vnodes or "
    "[rebuild](how-to/rebuild.md)",
    "DuplicateKeyError": "remove the duplicates and run again; or give `upstream.key` the columns that identify a row, "
    "and [rebuild](how-to/rebuild.md) if the job exists",
    "MaterializedViewError": "choose another folder; if something else wrote to the view, "
    "[repair](how-to/repair-rows.md) what it wrote to, or [rebuild](how-to/rebuild.md)",
    "StateError": "do what the message says",
    "JobNotCreatedError": "create the job",
    "StateLayoutError": "upgrade the package, or [recover the tables](how-to/recover-after-a-failure.md)",
    "LocationNotAllowedError": "choose a folder under an allowed root, or change "
    "[`AIRFLOW_BACKFILL_ALLOWED_ROOTS`](security.md)",
    "DataFileError": "restore the file from a copy; or repair its table, and [rebuild](how-to/rebuild.md)",
    "TableLogError": "restore the table from a copy, or [rebuild](how-to/rebuild.md)",
    "JobCancelledError": "[rebuild](how-to/rebuild.md) to start over",
    "NotFinishedError": "run more epochs",
    "ConcurrentUpdateError": "try again",
    "StorageUnavailableError": "check the storage, its options, permissions and free space; then try again",
    "StorageOptionsError": "give the credential [in a way that both support](how-to/use-an-object-store.md)",
    "SparkUnavailableError": "install what the message names",
    "InvalidRemoteError": "write it as `sc://host:port`",
    "SparkServerUnavailableError": "start the server, or give the right token; see "
    "[a warm engine](how-to/keep-a-warm-engine.md)",
    "SparkSettingError": "configure the server with the setting, and leave it out here",
    "QueryFailedError": "correct the row and run again; or make the query handle such rows, and "
    "[rebuild](how-to/rebuild.md)",
    "EpochFailedError": "run again; if it fails the same way, correct the cause that the message names",
    "EpochGivenUpError": "run the next epoch, which pins a new barrier; `status` says why this one was given up",
    "InvalidConnectionError": "correct the connection",
    "InvalidPolicyError": "correct the value that it names",
    "NotVerifiedError": "[verify](how-to/verify-a-view.md) the view; before the first epoch, run one",
    "VersionGoneError": "start a [new verification](how-to/verify-a-view.md)",
    "VerificationFailedError": "restore what the message names, or [rebuild](how-to/rebuild.md)",
    "ViewDiffersError": "[repair what differs](how-to/repair-rows.md)",
    "CompactionFailedError": "try again, preferably [while no epoch runs](how-to/keep-files-good.md)",
}


def make() -> dict[str, str]:
    """Return the page's blocks."""
    # Airflow writes its configuration when it is imported; not into the user's home.
    with tempfile.TemporaryDirectory() as home:
        os.environ["AIRFLOW_HOME"] = home
        return {
            "job": _job(),
            "upstream": _given(DeltaUpstream, UPSTREAM_FIELDS, UPSTREAM_DEFAULTS),
            "key": _given(KeyColumn, KEY_FIELDS, {}),
            "restriction": _given(Restriction, RESTRICTION_FIELDS, RESTRICTION_DEFAULTS),
            "key bounds": _given(KeyBounds, BOUNDS_FIELDS, BOUNDS_DEFAULTS),
            "commands": _commands(),
            "status": _documented(JobStatus, {**STATUS_FIELDS, **_params(JobSummary)}),
            "vnode span": _documented(VnodeSpan, {}),
            "settings table": _columns(records.SETTINGS_SCHEMA, SETTINGS_COLUMNS),
            "barrier log table": _columns(records.BARRIER_LOG_SCHEMA, LOG_COLUMNS),
            "state table": _columns(_state_schema(), STATE_COLUMNS),
            "verifications table": _columns(verifications.SCHEMA, VERIFICATION_COLUMNS),
            "verification": _documented(VerifiedState, {}),
            "barrier": _documented(Barrier, {}),
            "window": _documented(UpstreamWindow, {}),
            "repair": _documented(Repair, {}),
            "report": _documented(EpochReport, _REPORT_FIELDS),
            "commit": _documented(EpochCommit, _COMMIT_FIELDS),
            "stages": _stages(),
            "connection": _connection(),
            "airflow": _airflow(),
            "errors": _errors(),
        }


_REPORT_FIELDS = {
    "epoch": "the epoch",
    "incarnation": "the incarnation that it belongs to",
    "digest": "digest of the pinned barrier",
    "reported_at": "when",
}
_COMMIT_FIELDS = {
    "epoch": "the epoch",
    "incarnation": "the incarnation that it belongs to",
    "digest": "digest of the pinned barrier",
    "view_written_at": "when that version's commit says that it was written; null if it does not",
    "strategy_tables": "versions of the strategy's own tables (`arrangement`) after the epoch's writes, and when "
    "they were written; empty without any",
    "watermark": "commit time of the upstream's `to_version`",
    "committed_at": "when",
}


def _stages() -> str:
    return table(
        ("stage", "what is done", "time recorded as", "crash points"),
        (
            (
                f"`{stage.kind}`",
                stage.description,
                f"`{stage.timed_as}`" if stage.timed_as else "",
                ", ".join(f"`{point}`" for point in (stage.before, stage.after) if point),
            )
            for stage in STAGES
        ),
    )


def _job() -> str:
    meanings = _params(BackfillJob)
    _same(meanings, BackfillJob.model_fields, "documented fields of a job")
    _same(JOB_TYPES, BackfillJob.model_fields, "fields of a job")
    return table(
        ("field", "type", "default", "meaning"),
        (
            (f"`{name}`", JOB_TYPES[name], JOB_DEFAULTS.get(name) or _default(BackfillJob, name), meanings[name])
            for name in BackfillJob.model_fields
        ),
    )


def _given(model: type[BaseModel], fields: Mapping[str, tuple[str, str]], defaults: Mapping[str, str]) -> str:
    _same(fields, model.model_fields, f"fields of {model.__name__}")
    return table(
        ("field", "type", "default", "meaning"),
        (
            (f"`{name}`", kind, defaults.get(name) or _default(model, name), meaning)
            for name, (kind, meaning) in fields.items()
        ),
    )


def _default(model: type[BaseModel], name: str) -> str:
    default = model.model_fields[name].default
    if default is PydanticUndefined:
        return "required"
    if default is None:
        return "null"
    return f"`{str(default).lower()}`"


def _documented(model: type[BaseModel], rest: Mapping[str, str]) -> str:
    meanings = {**rest, **_params(model)}
    _same(meanings, model.model_fields, f"fields of {model.__name__}")
    return table(("field", "meaning"), ((f"`{name}`", meanings[name]) for name in model.model_fields))


def _columns(schema: pa.Schema, meanings: Mapping[str, str]) -> str:
    _same(meanings, schema.names, "columns")
    return table(
        ("column", "type", "meaning"),
        ((f"`{field.name}`", _type(field.type), meanings[field.name]) for field in schema),
    )


def _type(kind: pa.DataType) -> str:
    return (
        "timestamp"
        if pa.types.is_timestamp(kind)
        else {"int64": "long", "int32": "int", "double": "double"}.get(str(kind), str(kind))
    )


def _state_schema() -> pa.Schema:
    return records.state_schema(KeyOrder((KeyField(name="order_id", type="long"),)))


def _commands() -> str:
    from airflow_backfill_provider.cli.main import app

    lines = []
    for name, command in _commands_of(typer.main.get_command(app)):
        arguments = " ".join(p.metavar or p.name.upper() for p in command.params if p.param_type_name == "argument")
        options = [
            f"`{option.opts[-1]}{' ' + (option.metavar or _value(option)) if _takes_value(option) else ''}`"
            for option in command.params
            if option.param_type_name == "option" and option.name not in {"help", "debug"}
        ]
        first = (command.help or "").strip().split("\n\n")[0].replace("\n", " ")
        lines.append((f"`{name} {arguments}`".replace(" `", "`"), ", ".join(options), first))
    return table(("command", "options", "what it does"), lines)


def _commands_of(group: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the commands of a group and of the groups in it, with their whole names."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands_of(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", command


def _takes_value(option: Any) -> bool:
    return not getattr(option, "is_flag", False)


def _value(option: Any) -> str:
    return {"master": "URL", "interval": "SECONDS"}.get(option.name, "VALUE")


def _connection() -> str:
    (connection,) = get_provider_info()["connection-types"]
    return table(
        ("extra", "meaning"),
        ((f"`{name}`", field["description"]) for name, field in connection["conn-fields"].items()),
    )


def _airflow() -> str:
    lines = []
    info = get_provider_info()
    for kind in ("operators", "sensors"):
        for module in (name for entry in info[kind] for name in entry["python-modules"]):
            for name, found in sorted(vars(importlib.import_module(module)).items()):
                if _is_public(found, name, module):
                    summary = _sentence(inspect.getdoc(found) or "")
                    arguments = ", ".join(f"`{argument}`" for argument in _arguments(found))
                    lines.append(
                        (f"`{module.removeprefix('airflow_backfill_provider.')}`", f"`{name}`", arguments, summary)
                    )
    return table(("module", "class", "arguments", "what it does"), lines)


def _is_public(found: Any, name: str, module: str) -> bool:
    return (
        inspect.isclass(found)
        and found.__module__ == module
        and not name.startswith("_")
        and not inspect.isabstract(found)
    )


def _arguments(found: type) -> Iterator[str]:
    """Yield the names of the arguments that this package adds to Airflow's own, the class's own first."""
    seen = {"kwargs", "self"}
    for base in found.__mro__:
        if base.__module__.startswith("airflow_backfill_provider") and "__init__" in vars(base):
            for name in inspect.signature(vars(base)["__init__"]).parameters:
                if name not in seen:
                    seen.add(name)
                    yield name


def _errors() -> str:
    invalid_connection = importlib.import_module("airflow_backfill_provider.hooks.backfill").InvalidConnectionError
    found = [
        kind
        for kind in (*vars(errors).values(), invalid_connection)
        if inspect.isclass(kind) and issubclass(kind, errors.BackfillError) and kind is not errors.BackfillError
    ]
    _same(WHAT_TO_DO, [kind.__name__ for kind in found], "errors")
    return table(
        ("class", "retryable", "meaning", "what to do"),
        (
            (
                f"`{kind.__name__}`",
                "**yes**" if kind.retryable else "no",
                _sentence(inspect.getdoc(kind) or ""),
                WHAT_TO_DO[kind.__name__],
            )
            for kind in found
        ),
    )


def _params(model: type) -> dict[str, str]:
    """Return what a class's docstring says of its fields."""
    text = inspect.getdoc(model) or ""
    found = re.findall(r"^:param (\w+): (.*?)(?=^:|\Z)", text, re.MULTILINE | re.DOTALL)
    return {name: _plain(meaning).rstrip(".") for name, meaning in found}


def _sentence(text: str) -> str:
    return _plain(text.split("\n\n", maxsplit=1)[0])


def _plain(text: str) -> str:
    """Return reStructuredText as Markdown, on one line."""
    text = re.sub(r":\w+:`~?(?:[\w.]+\.)?(\w+)`", r"`\1`", " ".join(text.split()))
    return re.sub(r"\s*\(templated: [^)]*\)", "", text.replace("``", "`")).replace("`None`", "null")


def _same(given: Iterable[str], expected: Iterable[str], what: str) -> None:
    different = set(given) ^ set(expected)
    if different:
        raise ValueError(f"{what}: {', '.join(sorted(different))}; bring docs/reference_tables.py up to date")


if __name__ == "__main__":
    sys.exit(main(PAGE, make()))
