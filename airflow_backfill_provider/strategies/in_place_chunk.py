"""Plans the chunk of the next barrier by the job's strategy, without a JVM."""

from __future__ import annotations

from airflow_backfill_provider.strategies import KINDS
from airflow_backfill_provider.strategies.base import ChunkInputs, NextChunk


def next_chunk(inputs: ChunkInputs) -> NextChunk:
    """
    Plan what an epoch reads.

    :raises StateError: if the strategy's tables are gone although epochs read them before.
    """
    previous = inputs.previous
    if inputs.state.completed:
        return NextChunk(previous.upstream.row_count if previous else 0)
    return KINDS.named(inputs.settings.strategy).next_chunk(inputs)
