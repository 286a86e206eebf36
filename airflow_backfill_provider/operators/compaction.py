"""The operator that compacts the files of a view."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import Context

from airflow_backfill_provider.core.status.compaction import APPLICATION, CompactionPlan, CompactionPolicy
from airflow_backfill_provider.operators.arguments import files_of
from airflow_backfill_provider.operators.base import SparkBackfillOperator


class CompactMaterializedViewOperator(SparkBackfillOperator):
    """
    Compacts the small files of a view, if that is due. (templated: compact_at, and those of the base)

    Reads the view's log, and starts Spark only if a compaction is due. A compaction changes no row: readers and the
    view's change feed don't see it, and epochs may run before, after and during it. While epochs read an arrangement,
    its files of changes are compacted, too.

    Returns ``compacted`` (whether it was due), and for ``view`` and ``arrangement`` (``None`` without one) the state
    afterwards: ``files``, ``saved_files`` (the files that another compaction would save) and ``deleted_share``.

    :param compact_at: the number of files that a compaction must save to be due.
    :param target_file_size: the size of a compacted file in bytes; by default the view's property
        ``delta.targetFileSize``, or 128 MiB.
    """

    template_fields: Sequence[str] = ("compact_at", *SparkBackfillOperator.template_fields)

    def __init__(
        self,
        *,
        compact_at: int | str = CompactionPolicy().at,
        target_file_size: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.compact_at: Any = compact_at
        self.target_file_size = target_file_size

    def execute(self, context: Context) -> dict[str, Any]:
        """Compact the view, if that is due."""
        del context
        from airflow_backfill_provider.jobs.maintenance import compaction
        from airflow_backfill_provider.jobs.maintenance.compaction_text import look_lines
        from airflow_backfill_provider.strategies import KINDS

        with self.created() as backfill:
            policy = CompactionPolicy(at=files_of(self.compact_at), target_file_size=self.target_file_size)
            found = compaction.look(backfill, policy)
            compacted = found.due or self.waited_for(APPLICATION)
            if compacted:
                self.run_application(
                    backfill, APPLICATION, "backfill_compact.py", _arguments(backfill.job.state, policy)
                )
                found = compaction.look(backfill, policy)
            for line in look_lines(found):
                self.log.info("%s", line)
        return {
            "compacted": compacted,
            "view": _summary(found.view),
            **{name: None for kind in KINDS for name in kind.table_names},
            **{name: _summary(plan) for name, plan in found.own_tables.items()},
        }


def _arguments(state: str, policy: CompactionPolicy) -> list[str]:
    size = [] if policy.target_file_size is None else ["--target-file-size", str(policy.target_file_size)]
    return ["--state", state, "--at", str(policy.at), *size]


def _summary(plan: CompactionPlan) -> dict[str, Any]:
    return {"files": plan.files, "saved_files": plan.saved_files, "deleted_share": plan.deleted_share}
