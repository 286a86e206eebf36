"""
Makes the tables of the reference from the code that they describe.

``python -m docs.reference_tables --write`` puts them into the pages, ``--check`` compares them with these. This starts
neither Spark nor Airflow's processes. Where the code doesn't say what something means, :mod:`docs.reference_texts`
does. The script fails if a text is missing, or has nothing to describe.
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
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from airflow_backfill_provider.core import errors
from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.epoch_record import EpochCommit, EpochReport
from airflow_backfill_provider.core.epoch.repair import Repair
from airflow_backfill_provider.core.epoch.stages import STAGES
from airflow_backfill_provider.core.epoch.window import UpstreamWindow
from airflow_backfill_provider.core.job.adoption import BackfillFrom
from airflow_backfill_provider.core.job.beginning import BegunView
from airflow_backfill_provider.core.job.cut_over import GatedCutOver
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.job.keep import KeptRows
from airflow_backfill_provider.core.job.layout import ViewLayout
from airflow_backfill_provider.core.job.restriction import KeyBounds, Restriction
from airflow_backfill_provider.core.job.stars import StarredQuery
from airflow_backfill_provider.core.job.upstream import KeyColumn
from airflow_backfill_provider.core.scan.keys import KeyField, KeyOrder
from airflow_backfill_provider.core.status.cut_over import CutOverStatus
from airflow_backfill_provider.core.status.job_status import JobStatus, JobSummary
from airflow_backfill_provider.core.status.split_status import SplitStatus
from airflow_backfill_provider.core.status.verified_state import VerifiedState
from airflow_backfill_provider.core.status.vnode_map import VnodeSpan
from airflow_backfill_provider.get_provider_info import get_provider_info
from airflow_backfill_provider.sources.append_only.definition import AppendOnlyUpstream
from airflow_backfill_provider.sources.debezium.definition import DebeziumUpstream, SnapshotDefinition
from airflow_backfill_provider.sources.delta.definition import DeltaUpstream
from airflow_backfill_provider.sources.files.definition import FilesUpstream
from airflow_backfill_provider.sources.kafka.definition import KafkaUpstream
from airflow_backfill_provider.sources.postgres.definition import PostgresUpstream
from airflow_backfill_provider.sources.shared.change_log.changes import SCHEMA as CHANGE_LOG_SCHEMA
from airflow_backfill_provider.sources.shared.change_log.changes import LoggedKind
from airflow_backfill_provider.sources.upserts.definition import UpsertsUpstream
from airflow_backfill_provider.state import differences, records, verifications
from docs.generated import main, table
from docs.reference_job_texts import JOB_DEFAULTS, JOB_TYPES
from docs.reference_mappings import (
    ADOPTION_DEFAULTS,
    ADOPTION_FIELDS,
    BOUNDS_DEFAULTS,
    BOUNDS_FIELDS,
    RESTRICTION_DEFAULTS,
    RESTRICTION_FIELDS,
)
from docs.reference_texts import (
    APPEND_ONLY_DEFAULTS,
    APPEND_ONLY_FIELDS,
    CHANGE_LOG_COLUMNS,
    COMMIT_FIELDS,
    DEBEZIUM_DEFAULTS,
    DEBEZIUM_FIELDS,
    DIFFERENCE_COLUMNS,
    FILE_LOG_DEFAULTS,
    FILES_FIELDS,
    KAFKA_DEFAULTS,
    KAFKA_FIELDS,
    KEY_FIELDS,
    LOG_COLUMNS,
    LOGGED_KINDS,
    POSTGRES_DEFAULTS,
    POSTGRES_FIELDS,
    REPORT_FIELDS,
    SETTINGS_COLUMNS,
    SNAPSHOT_FIELDS,
    STATE_COLUMNS,
    STATUS_FIELDS,
    UPSERTS_DEFAULTS,
    UPSERTS_FIELDS,
    UPSTREAM_DEFAULTS,
    UPSTREAM_FIELDS,
    VERIFICATION_COLUMNS,
    WHAT_TO_DO,
)

PAGES = tuple(sorted((Path(__file__).parent / "reference").glob("*.md")))


def make() -> dict[str, str]:
    """Return the pages' blocks."""
    # Airflow writes its configuration when it is imported; not into the user's home.
    with tempfile.TemporaryDirectory() as home:
        os.environ["AIRFLOW_HOME"] = home
        return {
            "job": _job(),
            "upstream": _given(DeltaUpstream, UPSTREAM_FIELDS, UPSTREAM_DEFAULTS),
            "postgres": _given(PostgresUpstream, POSTGRES_FIELDS, POSTGRES_DEFAULTS),
            "debezium": _given(DebeziumUpstream, DEBEZIUM_FIELDS, DEBEZIUM_DEFAULTS),
            "debezium snapshot": _given(SnapshotDefinition, SNAPSHOT_FIELDS, {}),
            "upserts": _given(UpsertsUpstream, UPSERTS_FIELDS, UPSERTS_DEFAULTS),
            "kafka": _given(KafkaUpstream, KAFKA_FIELDS, KAFKA_DEFAULTS),
            "append only": _given(AppendOnlyUpstream, APPEND_ONLY_FIELDS, APPEND_ONLY_DEFAULTS),
            "files": _given(FilesUpstream, FILES_FIELDS, FILE_LOG_DEFAULTS),
            "key": _given(KeyColumn, KEY_FIELDS, {}),
            "adoption": _given(BackfillFrom, ADOPTION_FIELDS, ADOPTION_DEFAULTS),
            "restriction": _given(Restriction, RESTRICTION_FIELDS, RESTRICTION_DEFAULTS),
            "key bounds": _given(KeyBounds, BOUNDS_FIELDS, BOUNDS_DEFAULTS),
            "commands": _commands(),
            "status": _documented(JobStatus, {**STATUS_FIELDS, **_params(JobSummary)}),
            "cut over": _documented(CutOverStatus, {}),
            "vnode span": _documented(VnodeSpan, {}),
            "split status": _documented(SplitStatus, {}),
            "settings table": _columns(records.SETTINGS_SCHEMA, SETTINGS_COLUMNS),
            "barrier log table": _columns(records.BARRIER_LOG_SCHEMA, LOG_COLUMNS),
            "state table": _columns(_state_schema(), STATE_COLUMNS),
            "verifications table": _columns(verifications.SCHEMA, VERIFICATION_COLUMNS),
            "differences table": _columns(differences.SCHEMA, DIFFERENCE_COLUMNS),
            "verification": _documented(VerifiedState, {}),
            "barrier": _documented(Barrier, {}),
            "window": _documented(UpstreamWindow, {}),
            "repair": _documented(Repair, {}),
            "report": _documented(EpochReport, REPORT_FIELDS),
            "commit": _documented(EpochCommit, COMMIT_FIELDS),
            "change log table": _columns(CHANGE_LOG_SCHEMA, CHANGE_LOG_COLUMNS),
            "logged kinds": _logged_kinds(),
            "stages": _stages(),
            "connection": _connection(),
            "airflow": _airflow(),
            "errors": _errors(),
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


def _logged_kinds() -> str:
    _same(LOGGED_KINDS, LoggedKind, "kinds of rows of a change log")
    return table(("kind", "meaning"), ((f"`{kind.value}`", LOGGED_KINDS[kind]) for kind in LoggedKind))


def _job() -> str:
    mixed_in = (BegunView, StarredQuery, GatedCutOver, KeptRows, ViewLayout)
    meanings = _params(BackfillJob) | {name: text for of in mixed_in for name, text in _params(of).items()}
    _same(meanings, BackfillJob.model_fields, "documented fields of a job")
    _same(JOB_TYPES, BackfillJob.model_fields, "fields of a job")
    return table(
        ("field", "type", "default", "meaning"),
        (
            (
                f"`{name}`",
                JOB_TYPES[name],
                JOB_DEFAULTS.get(name) or _default(BackfillJob.model_fields[name]),
                meanings[name],
            )
            for name in BackfillJob.field_names()
        ),
    )


def _given(model: type[BaseModel], fields: Mapping[str, tuple[str, str]], defaults: Mapping[str, str]) -> str:
    found = {field.alias or name: field for name, field in model.model_fields.items()}
    _same(fields, found, f"fields of {model.__name__}")
    return table(
        ("field", "type", "default", "meaning"),
        (
            (f"`{name}`", kind, defaults.get(name) or _default(found[name]), meaning)
            for name, (kind, meaning) in fields.items()
        ),
    )


def _default(field: FieldInfo) -> str:
    default = field.default
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
    if pa.types.is_map(kind):
        return "map of texts"
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
        raise ValueError(f"{what}: {', '.join(sorted(different))}; bring docs/reference_texts.py up to date")


if __name__ == "__main__":
    sys.exit(main(PAGES, make()))
