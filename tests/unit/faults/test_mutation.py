"""The report of mutation testing: which mistakes count as found, and when the share is too small."""

from __future__ import annotations

import json
import tomllib

import pytest

from faults import mutation
from faults.mutants import ROOT

MODULE = "airflow_backfill_provider/core/made_up.py"


@pytest.fixture
def ended(tmp_path, monkeypatch):
    """Let mistakes have ended by some exit codes of the tests."""
    monkeypatch.setattr(mutation, "mutated_modules", lambda: (MODULE,))
    monkeypatch.setattr(mutation, "RESULTS", tmp_path)
    monkeypatch.setattr(mutation, "PAGE", tmp_path / "page.md")

    def by(*codes):
        kept = tmp_path / f"{MODULE}.meta"
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps({"exit_code_by_key": {f"m{n}": code for n, code in enumerate(codes)}}))

    return by


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        (0, "survived"),
        (1, "killed"),
        (3, "killed"),
        (33, "survived"),
        (-24, "timed out"),
        (255, "unknown"),
        (-9, "unknown"),
        (None, "not tried"),
    ],
)
def test_only_tests_that_ran_can_have_found_something(ended, code, verdict):
    ended(code)
    assert mutation.verdicts_of(MODULE) == {"m0": verdict}


@pytest.mark.parametrize(("survived", "exit_code"), [(0, 0), (1, 0), (2, 1)])
def test_the_exit_code_says_whether_nine_of_ten_were_found(ended, survived, exit_code, capsys):
    ended(*[0] * survived, *[1] * (9 - survived), -24)
    assert mutation.main(["--report"]) == exit_code
    assert capsys.readouterr().out.count("survived: m") == survived


def test_a_module_that_was_not_tried_is_below_every_floor(ended, capsys):
    assert mutation.main(["--report"]) == 1
    assert "| 0.0 %" in capsys.readouterr().out


def test_a_share_is_not_rounded_up(ended):
    ended(*[0] * 1001, *[1] * 8999)
    assert mutation.share_of(MODULE).percent == "89.9 %"


def test_the_shares_are_written_into_the_page(ended, capsys):
    mutation.PAGE.write_text("# Page\n\n<!-- generated: mutation -->\nold\n<!-- /generated -->\n\nend\n")
    ended(1, 1, 0, None)
    mutation.main(["--report", "--write"])
    written = mutation.PAGE.read_text()
    assert "| `core/made_up.py` | 4 | 3 | 2 | 0 | 1 | 66.6 % |" in written
    assert "| all | 4 | 3 | 2 | 0 | 1 | 66.6 % |" in written
    assert written.endswith("<!-- /generated -->\n\nend\n")
    assert "old" not in written


@pytest.mark.parametrize(
    ("arguments", "tried"),
    [
        ([], ["airflow_backfill_provider.core.made_up.*"]),
        (["--again"], ["m1", "m2", "m4", "m5"]),
        (["--more", "9"], ["m4", "m5"]),
        (["--report"], None),
    ],
)
def test_what_is_tried(ended, arguments, tried, monkeypatch):
    asked = []
    monkeypatch.setattr(mutation, "_try", lambda names, jobs: asked.append(sorted(names)) or 0)
    ended(1, 0, 255, -24, None, None)
    mutation.main(arguments)
    assert asked == ([] if tried is None else [tried])


@pytest.mark.parametrize("size", [0, 1, 3])
def test_a_sample_is_as_large_as_asked_for_and_the_same_each_time(ended, size, monkeypatch):
    asked = []
    monkeypatch.setattr(mutation, "_try", lambda names, jobs: asked.append(names) or 0)
    ended(*[None] * 20)
    for _ in range(2):
        mutation.main(["--more", str(size)])
    assert [len(set(names)) for names in asked] == ([size] * 2 if size else [])
    assert asked[:1] == asked[1:]


def test_a_module_that_is_not_mutated_cannot_be_asked_for(ended, capsys):
    with pytest.raises(SystemExit, match="2"):
        mutation.main(["elsewhere"])
    assert "elsewhere" in capsys.readouterr().err


def test_the_modules_and_tests_of_the_settings_exist():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mutmut"]
    named = [*settings["only_mutate"], *settings["pytest_add_cli_args_test_selection"]]
    assert [name for name in named if not (ROOT / name).exists()] == []
