"""Upstreams that a test copies instead of letting Spark make them."""

from __future__ import annotations

import pytest

from tests.builders import commit_file
from tests.integration.engine.upstream_templates import BeginningUpstream, UpstreamTemplates

CREATE = "CREATE TABLE {upstream} (id BIGINT) USING delta"
INSERT = "INSERT INTO {upstream} SELECT id FROM range(9)"


class Table:
    """A table in the making, with what stands for Spark."""

    def __init__(self, path, templates):
        self.path = path
        self.ran = []
        self.beginning = BeginningUpstream(templates)

    def run(self, statement):
        return self.beginning.run(statement, self.path, lambda: self.commit(statement))

    def commit(self, statement):
        log = commit_file(self.path, 0).parent
        log.mkdir(parents=True, exist_ok=True)
        file = commit_file(self.path, len(list(log.iterdir())))
        file.write_text(statement, encoding="utf-8")
        self.ran.append(statement)


@pytest.fixture
def table(tmp_path):
    """Makes tables of one process."""
    templates = UpstreamTemplates(tmp_path)
    return lambda name: Table(tmp_path / "lakes" / name, templates)


def commits(made):
    return [file.read_text(encoding="utf-8") for file in sorted((made.path / "_delta_log").iterdir())]


def test_the_second_table_of_the_same_statements_is_a_copy(table):
    """It has the same files as the first one; a table of other statements has its own."""
    first, second, other = table("first"), table("second"), table("other")
    for made in (first, second):
        assert made.run(CREATE)
        assert made.run(INSERT)
    assert other.run(CREATE)
    assert other.run(INSERT.replace("9", "3"))
    assert first.ran == [CREATE, INSERT]
    assert second.ran == []
    assert commits(second) == commits(first)
    assert commits(other) == [CREATE, INSERT.replace("9", "3")]


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO {upstream} SELECT id FROM rows",
        "INSERT INTO {upstream} SELECT id FROM {view}",
        "INSERT INTO {upstream} SELECT rand()",
        "INSERT INTO {upstream} SELECT current_timestamp()",
    ],
)
def test_what_may_be_something_else_in_another_test_is_not_copied(table, statement):
    made = table("first")
    assert made.run(CREATE)
    assert not made.run(statement)


def test_a_table_that_somebody_else_wrote_to_is_not_continued(table):
    """What is copied then would not be what Spark would make."""
    made = table("first")
    assert made.run(CREATE)
    commit_file(made.path, 1).write_text("by hand", encoding="utf-8")
    assert not made.run(INSERT)


def test_rows_alone_are_no_table(table):
    """A table that was made in another way is unknown, and so is one at another place."""
    made = table("first")
    assert not made.run(INSERT)
    commit_file(made.path, 0).parent.mkdir(parents=True)
    assert not made.run(CREATE)
    moved = table("second")
    assert moved.run(CREATE)
    moved.path = moved.path.with_name("third")
    assert not moved.run(INSERT)


def test_a_table_that_a_test_makes_anew_is_another_one(table):
    """A replaced upstream has an id of its own, so it is no copy."""
    made = table("first")
    assert made.run(CREATE)
    commit_file(made.path, 0).unlink()
    assert not made.run(CREATE)
