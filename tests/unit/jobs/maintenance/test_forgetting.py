"""Erasing former rows: what is refused, and that it takes its turn. What is erased is tested on Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.scan.keys import EncodedPosition
from airflow_backfill_provider.jobs.maintenance.forgetting import forget_keys
from tests.builders import Orders
from tests.plain_engine import CountingEngine
from tests.unit.jobs.maintenance.test_compaction import created


class Erasing(CountingEngine):
    """Records the keys that it was given within its turn."""

    def __init__(self) -> None:
        self.its_turn = False
        self.keys: Sequence[EncodedPosition] = ()

    def exclusive(self, state: str) -> AbstractContextManager[None]:
        return self._turn()

    @contextmanager
    def _turn(self) -> Iterator[None]:
        self.its_turn = True
        yield
        self.its_turn = False

    def forget(self, settings: JobSettings, keys: Sequence[EncodedPosition]) -> int:
        assert self.its_turn, "I5: an epoch of this machine may be committing"
        self.keys = keys
        return len(keys)


def test_each_key_is_erased_once_within_a_turn(lake: Path) -> None:
    Orders(lake).add(*range(3))
    engine = Erasing()
    assert forget_keys(created(lake, keep="history"), [1, [2], "1"], engine=lambda: engine) == 2
    assert engine.keys == [("1",), ("2",)]


@pytest.mark.parametrize(
    ("keep", "key", "said"),
    [
        ("latest", 1, "forget: the view of job .* keeps no former rows"),
        ("deleted", "x", "forget: .* is not a key of the upstream"),
        ("history", [1, 2], "forget: .* needs a value for each of id|is not a key of the upstream"),
    ],
)
def test_what_cannot_be_erased_starts_no_spark(lake: Path, keep: str, key: object, said: str) -> None:
    Orders(lake).add(*range(3))
    engines: list[Erasing] = []

    def engine() -> Erasing:
        engines.append(Erasing())
        return engines[-1]

    with pytest.raises(InvalidJobError, match=said):
        forget_keys(created(lake, keep=keep), [key], engine=engine)
    assert engines == []
