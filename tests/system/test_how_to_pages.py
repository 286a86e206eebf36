"""
The commands of the how-to pages, typed one after another in one folder.

The tables of the pages lie in a folder of the test instead of ``/tmp``; everything else is typed as it is written.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from docs.blocks import ROOT, blocks_of, run_by
from tests.ports import free_port
from tests.system.shell import typed

pytestmark = [pytest.mark.spark, pytest.mark.exhaustive]

HERE = "tests/system/test_how_to_pages.py"
FIRST = "docs/how-to/use-the-command-line.md"


class Reader:
    """
    Types what pages say.

    :param folder: where the reader works, and where the tables lie.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "XDG_STATE_HOME": str(folder / "state"),
        }

    def types(self, command: str) -> str:
        """Run a command, which must succeed."""
        return typed(command, self.folder, self.environment)

    def follows(self, page: str) -> list[str]:
        """Run the commands of a page, from top to bottom."""
        return [self.types(line) for block in run_by(HERE, page) for line in block.commands]

    def prepares(self) -> None:
        """Make the table and the job of the first page."""
        texts = {block.language: block.text for block in blocks_of(ROOT / FIRST)}
        made = {name: text.replace("/tmp/lake", f"{self.folder}/lake") for name, text in texts.items()}
        (self.folder / "table.py").write_text(made["python"], encoding="utf-8")
        self.types("python table.py")
        for name in ("paid_orders", "job"):  # what pages call the file
            (self.folder / f"{name}.yaml").write_text(made["yaml"], encoding="utf-8")


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Reader:
    """A reader who has gone through the first page."""
    reader = Reader(tmp_path_factory.mktemp("reader"))
    reader.prepares()
    said = reader.follows(FIRST)
    assert re.search(r"7,500 rows expected, 0 missing, 0 unexpected, 0 repeated, 0 different", said[5])
    return reader


@pytest.mark.parametrize("page", ["verify-a-view", "repair-rows", "keep-files-good", "start-spark-faster"])
def test_the_commands_of_a_page_succeed(reader, page):
    assert reader.follows(f"docs/how-to/{page}.md")


def test_a_view_follows_a_changed_query_by_the_commands_of_its_page(reader):
    before = (reader.folder / "paid_orders.yaml").read_text(encoding="utf-8")
    _, proposed, changed, epoch, verified = reader.follows("docs/how-to/change-the-query.md")
    assert (
        "class: filter changed (the condition was status = 'paid' and is status = 'paid' AND amount > 10)" in proposed
    )
    assert "the next epoch brings the view to the new query" in changed
    assert "epoch" in epoch
    assert "0 missing, 0 unexpected" in verified
    (reader.folder / "paid_orders.yaml").write_text(before, encoding="utf-8")
    assert "class: filter changed" in reader.types("airflow-backfill change paid_orders.yaml")
    reader.types("airflow-backfill run paid_orders.yaml")


def test_a_changed_query_waits_for_its_approval_by_the_commands_of_its_page(reader):
    before = (reader.folder / "paid_orders.yaml").read_text(encoding="utf-8")
    *_, proposed, shown, _, approved, epoch = reader.follows("docs/how-to/approve-a-cut-over.md")
    assert "the change waits for an approval" in proposed
    assert re.search(r"rows: [\d,]+ now, [\d,]+ then; 0 added, [\d,]+ removed, 0 changed", shown)
    assert "approved; run the job to let the changed query go live" in approved
    assert "epoch" in epoch
    (reader.folder / "paid_orders.yaml").write_text(before, encoding="utf-8")
    reader.types("airflow-backfill change paid_orders.yaml")
    reader.types("airflow-backfill run paid_orders.yaml")


def test_the_commands_of_rebuilds_succeed_in_the_order_of_their_page(reader):
    """A rebuild beside the view needs a finished one, so the view is finished again in between."""
    rebuild, keep_serving, revert = run_by(HERE, "docs/how-to/rebuild.md")
    reader.types(rebuild.text)
    reader.types("airflow-backfill run paid_orders.yaml --until-finished")
    reader.types(keep_serving.text)
    reader.types(revert.text)
    assert "0 missing, 0 unexpected" in reader.types("airflow-backfill verify paid_orders.yaml")


def test_the_commands_of_the_warm_engine_succeed(reader):
    start, run, status, stop = (
        line for block in run_by(HERE, "docs/how-to/keep-a-warm-engine.md") for line in block.commands
    )
    try:
        reader.types(f"{start} --port {free_port()}")
        reader.types(run)
        assert "sc://localhost" in reader.types(status)
    finally:
        reader.types(stop)
