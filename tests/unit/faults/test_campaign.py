"""The campaign's own machinery: what decides a case, what counts as wrong, and its report."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace

import pytest
from rich.console import Console

from faults import __main__, campaign, report
from faults.campaign import Campaign, Outcome, Tally, WrongError
from faults.campaigns import CAMPAIGNS

CONSOLE = Console(quiet=True)


@pytest.fixture(autouse=True)
def _results(tmp_path, monkeypatch):
    monkeypatch.setattr(campaign, "RESULTS", tmp_path / "results")


def campaign_of(play):
    @contextmanager
    def stage():
        yield play

    return Campaign(name="made-up", about="", quick=3, full=9, checks="checks", stage=stage)


def lines():
    return [json.loads(line) for line in (campaign.RESULTS / "made-up.jsonl").read_text().splitlines()]


def test_a_case_is_decided_by_campaign_seed_and_number_alone():
    drawn = {}

    def play(case, random):
        drawn.setdefault(case, []).append(random.random())
        return Outcome()

    made = campaign_of(play)
    campaign.run(made, seed=1, cases=range(3), console=CONSOLE)
    campaign.run(made, seed=1, cases=[2], console=CONSOLE)
    campaign.run(made, seed=2, cases=[2], console=CONSOLE)
    assert drawn[2][0] == drawn[2][1] != drawn[2][2]
    assert len({values[0] for values in drawn.values()}) == 3


@pytest.mark.parametrize("error", [WrongError("rows are missing"), OSError("leaked"), KeyError("leaked")])
def test_a_case_that_ends_without_an_outcome_is_wrong(error):
    def play(case, random):
        if case == 1:
            raise error
        return Outcome("StateError", checks=5)

    tally = campaign.run(campaign_of(play), seed=1, cases=range(3), console=CONSOLE)
    assert (tally.cases, tally.checks, tally.wrong) == (3, 11, 1)
    assert [line["result"] for line in lines()] == ["StateError", "WRONG", "StateError"]
    assert type(error).__name__ in lines()[1]["about"]


def test_no_case_begins_after_the_time_is_up():
    tally = campaign.run(campaign_of(lambda *_: Outcome()), seed=1, cases=range(3), console=CONSOLE, until=0.0)
    assert tally.cases == 0


def test_a_run_continues_where_an_earlier_one_was_killed():
    made = campaign_of(lambda case, _: Outcome("right" if case else "StateError"))
    campaign.run(made, seed=1, cases=[0, 2], console=CONSOLE)
    with (campaign.RESULTS / "made-up.jsonl").open("a") as file:
        file.write('{"seed": 1, "ca')
    before = campaign.played("made-up", 1)
    tally = campaign.run(made, seed=1, before=before, cases=[1], console=CONSOLE)
    assert (tally.cases, tally.results) == (3, {"right": 2, "StateError": 1})
    assert [line["case"] for line in lines()] == [0, 2, 1]
    assert campaign.played("made-up", 2) == []


def test_a_stage_that_fails_leaves_what_was_played():
    made = campaign_of(lambda *_: Outcome())
    campaign.run(made, seed=1, cases=[0], console=CONSOLE)

    @contextmanager
    def broken():
        raise OSError("no Spark")
        yield

    before = campaign.played("made-up", 1)
    with pytest.raises(OSError, match="no Spark"):
        campaign.run(replace(made, stage=broken), seed=1, before=before, cases=[1], console=CONSOLE)
    assert campaign.played("made-up", 1) == before != []


def test_what_was_played_is_left_out_on_the_command_line(monkeypatch):
    drawn = []
    made = campaign_of(lambda case, _: drawn.append(case) or Outcome())
    monkeypatch.setitem(CAMPAIGNS, "made-up", lambda: made)
    for arguments in (
        ["--case", "1"],
        ["--go-on"],
        ["--go-on"],
        [],
        ["--first", "1", "--cases", "1"],
        ["--first", "2"],
    ):
        assert __main__.main(["made-up", *arguments]) == 0
    assert drawn == [1, 0, 2, 0, 1, 2, 1, 2]


def test_a_table_has_the_newest_run_of_each_campaign():
    made = campaign_of(lambda case, _: Outcome("right" if case else "StateError"))
    campaign.run(made, seed=7, cases=range(3), console=CONSOLE)
    (tally,) = campaign.tallies()
    assert (tally.seed, tally.results) == (7, {"right": 2, "StateError": 1})
    table = report.table([Tally("model", 7, 3, 30, 1.0, tally.results)])
    assert table.splitlines()[-1] == "| `model` | 7 | 3 | 30 | 2 | `StateError` 1 | 0 |"


def test_a_table_keeps_what_was_not_played_here():
    before = report.table([Tally(name, 1, 5, 5, 1.0, Counter(right=5)) for name in ("names", "model")])
    table = report.table([Tally("model", 7, 3, 3, 1.0, Counter(right=3))], before)
    assert table.splitlines()[2:] == [
        "| `model` | 7 | 3 | 3 | 3 | none | 0 |",
        "| `names` | 1 | 5 | 5 | 5 | none | 0 |",
    ]
    assert report.table([], table) == table


def test_the_exit_code_says_whether_a_case_went_wrong(monkeypatch):
    outcomes = iter([Outcome(), Outcome("WRONG")])
    made = campaign_of(lambda *_: next(outcomes))
    monkeypatch.setitem(CAMPAIGNS, "model", lambda: made)
    assert __main__.main(["model", "--case", "0"]) == 0
    assert __main__.main(["model", "--case", "1"]) == 1
