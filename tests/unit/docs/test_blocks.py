"""Every block of code on the pages is run, read or marked: nothing that a reader types is left to chance."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
import typer
import yaml

from airflow_backfill_provider.cli.main import app
from airflow_backfill_provider.core.job.definition import BackfillJob
from docs import blocks
from docs.blocks import COMMANDS, LANGUAGES, ROOT, Block

HERE = "tests/unit/docs/test_blocks.py"
BLOCKS = [block for page in blocks.pages() for block in blocks.blocks_of(page)]
COMMAND_LINES = [
    pytest.param(line, id=f"{block}: {line}")
    for block in BLOCKS
    if block.language == "bash"
    for line in block.commands
    if line.startswith("airflow-backfill ")
]

COMMAND = typer.main.get_command(app)

JOB = {
    "name": "paid_orders",
    "upstream": {"path": "/lake/orders", "key": ["order_id"]},
    "materialized_view": "/lake/paid_orders",
    "query": "SELECT order_id, amount * 100 AS cents FROM upstream WHERE status = 'paid'",
}
TOPIC = {"kafka": {"connection": "events", "topic": "orders"}}


def of(language: str) -> list[Block]:
    """Return the blocks of a language."""
    return [block for block in BLOCKS if block.language == language]


def test_every_page_has_the_blocks_that_it_seems_to_have():
    fences = {str(page.relative_to(ROOT)): page.read_text(encoding="utf-8").count("```") for page in blocks.pages()}
    assert [page for page, count in fences.items() if count % 2] == []
    assert len(BLOCKS) > 100


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_a_block_names_its_language(block):
    assert block.language in LANGUAGES, f"{block}: write one of {sorted(LANGUAGES)} behind the three ticks"


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language in COMMANDS], ids=str)
def test_a_block_of_commands_is_run_by_a_test_or_says_why_not(block):
    assert block.runs or block.not_run, f"{block}: put '<!-- runs: TEST -->' or '<!-- not run: WHY -->' before it"
    if block.runs:
        test = ROOT / block.runs
        assert test.is_file()
        assert block.runs == HERE or "run_by(" in test.read_text(encoding="utf-8"), f"{block}: does it take the block?"


@pytest.mark.parametrize("line", COMMAND_LINES)
def test_the_command_line_understands_a_command_of_a_page(line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for word in shlex.split(line):
        if word.endswith(".yaml"):
            Path(word).parent.mkdir(exist_ok=True)
            Path(word).touch()
    command, arguments = COMMAND, shlex.split(line)[1:]
    while hasattr(command, "commands"):
        name, command, arguments = command.resolve_command(command.make_context("page", list(arguments)), arguments)
        assert command is not None, name
    command.make_context("page", arguments)


@pytest.mark.parametrize("block", [block for block in of("sql") if block.runs == HERE], ids=str)
def test_a_query_of_a_page_is_a_query_of_a_job(block):
    for query in block.text.strip().split("\n\n"):
        BackfillJob(**_over_its_tables({**JOB, "query": query}))


def _over_its_tables(job):
    """Return a job with the tables that its query names in place of the only one."""
    if re.search(r"\bupstream\b", job["query"]):
        return job
    tables = re.findall(r"\b(?:FROM|JOIN) (\w+)", job["query"])
    upstreams = {table: {"path": f"/lake/{table}", "key": ["id"]} for table in tables}
    return {name: value for name, value in {**job, "upstreams": upstreams}.items() if name != "upstream"}


@pytest.mark.parametrize("block", of("yaml"), ids=str)
def test_a_definition_of_a_page_is_one_of_a_job(block):
    given = yaml.safe_load(block.text)
    if "value" in given:
        given = {"upstream": {"kafka": {**TOPIC["kafka"], **given}}, "query": "SELECT * FROM upstream"}
    left_out = {"upstream"} if "upstreams" in given else set()
    BackfillJob(**{**{name: value for name, value in JOB.items() if name not in left_out}, **given})


@pytest.mark.parametrize("block", of("json"), ids=str)
def test_json_of_a_page_is_json(block):
    assert json.loads(block.text)


@pytest.mark.parametrize("page", sorted({block.page for block in of("python")}))
def test_the_python_of_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    """As a reader types it: what a block uses is imported on its page, in it or before."""
    monkeypatch.chdir(tmp_path)
    for folder in ("jobs", "lake"):
        (tmp_path / folder).mkdir()
    for name in ("paid_orders", "large_orders", "other_orders", "daily_totals"):
        definition = {**JOB, "name": name, "materialized_view": f"{tmp_path}/lake/{name}"}
        Path("jobs", f"{name}.yaml").write_text(yaml.safe_dump(definition), encoding="utf-8")
    typed: dict[str, object] = {"__name__": "page"}
    for block in (block for block in of("python") if block.page == page):
        text = block.text.replace("/jobs/", f"{tmp_path}/jobs/").replace("/tmp/lake", f"{tmp_path}/lake")
        exec(compile(text, str(block), "exec"), typed)  # noqa: S102 - what the page tells its readers to type


def test_a_block_without_a_line_before_it_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text(
        "# A page\n\n<!-- not run: why -->\n\n```bash\nls  # all of it\n```\n\n1. In a list:\n\n    ```bash\n    ls\n"
        "    ```\n\n<!-- runs: tests/a.py -->\n```sql\nSELECT 1\n```\n",
        encoding="utf-8",
    )
    first, second, third = blocks.blocks_of(page)
    assert (first.not_run, first.commands, first.line) == ("why", ["ls"], 5)
    assert (second.not_run, second.runs, second.text) == (None, None, "ls\n")
    assert (third.runs, blocks.run_by("tests/a.py", "page.md")) == ("tests/a.py", [third])
