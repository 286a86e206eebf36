"""Contents of commits that were read before."""

from __future__ import annotations

from airflow_backfill_provider.lake.log.commit_contents import CommitContents


def test_a_commit_is_read_once():
    contents, read = CommitContents(), []
    for _ in range(3):
        assert contents.of("a", lambda: read.append(1) or b"content") == b"content"
    assert len(read) == 1


def test_a_commit_that_cannot_be_read_is_asked_for_again():
    def fails() -> bytes:
        raise FileNotFoundError

    contents = CommitContents()
    for _ in range(2):
        try:
            contents.of("a", fails)
        except FileNotFoundError:
            continue
        raise AssertionError
    assert contents.of("a", lambda: b"content") == b"content"


def test_the_commits_that_were_used_last_are_kept():
    contents, read = CommitContents(most=2), []

    def ask(name: str) -> None:
        contents.of(name, lambda: read.append(name) or name.encode())

    for name in ("a", "b", "a", "c", "a", "b"):
        ask(name)
    assert read == ["a", "b", "c", "b"]
