"""Which files of tests a run imports, and in which order it plays them."""

from __future__ import annotations

import pytest

from tests.selection import has_nothing_to_play, rank, seconds_of_units, unit_of

SLOW_RUN = "slow and not exhaustive"
FAST = "def test_it(): ...\n"
WHOLLY = "import pytest\n\npytestmark = pytest.mark.spark\n\ndef test_it(): ...\n"
PARTLY = "import pytest\n\n@pytest.mark.slow\ndef test_it(): ...\n"
VARIANTS = 'import pytest\n\n@pytest.mark.parametrize("n", [1, exhaustive(2)])\ndef test_it(n): ...\n'


@pytest.mark.parametrize(
    ("text", "markers", "left_out"),
    [
        (FAST, "not slow", False),
        (FAST, SLOW_RUN, True),
        (FAST, "exhaustive", True),
        (FAST, "smoke", True),
        (FAST, "", False),
        (WHOLLY, "not slow", True),
        (WHOLLY, SLOW_RUN, False),
        (WHOLLY, "", False),
        (PARTLY, "not slow", False),
        (PARTLY, SLOW_RUN, False),
        (VARIANTS, "exhaustive", False),
    ],
)
def test_a_file_without_a_test_that_is_asked_for_is_not_imported(tmp_path, text, markers, left_out):
    """Importing all files takes longer than most runs of a few tests; an unknown expression imports them all."""
    file = tmp_path / "test_it.py"
    file.write_text(text, encoding="utf-8")
    assert has_nothing_to_play(file, markers) is left_out


@pytest.mark.parametrize("name", ["conftest.py", "helpers.py", "test_it.json"])
def test_only_files_of_tests_are_left_out(tmp_path, name):
    file = tmp_path / name
    file.write_text(FAST, encoding="utf-8")
    assert not has_nothing_to_play(file, SLOW_RUN)


def test_the_longest_files_are_played_first_and_the_others_in_the_order_in_which_they_are():
    """A file that is played last leaves the other processes without work for as long as it takes."""
    seconds = {"tests/a.py": 40.0, "tests/b.py": 90.5, "tests/c.py": 3.0}
    tests = [
        "tests/c.py::test_1",
        "tests/a.py::test_2",
        "tests/d.py::test_3",
        "tests/b.py::test_4",
        "tests/a.py::test_5",
    ]
    assert sorted(tests, key=lambda test: rank(test, seconds)) == [
        "tests/b.py::test_4",
        "tests/a.py::test_2",
        "tests/a.py::test_5",
        "tests/c.py::test_1",
        "tests/d.py::test_3",
    ]


@pytest.mark.parametrize(
    ("test", "unit"),
    [
        ("tests/integration/kafka/test_topic.py::test_1[a::b]", "tests/integration/kafka"),
        ("tests/integration/engine/test_epochs.py::test_2", "tests/integration/engine/test_epochs.py"),
        ("tests/unit/sources/kafka/test_lag.py::test_3", "tests/unit/sources/kafka/test_lag.py"),
    ],
)
def test_a_folder_whose_tests_share_a_server_is_played_as_a_whole(test, unit):
    """Three processes would start three servers."""
    assert unit_of(test) == unit


def test_a_folder_is_played_as_early_as_all_of_its_files_together_say():
    """Its files alone may be short ones."""
    seconds = {"tests/integration/s3/test_a.py": 8.0, "tests/integration/s3/test_b.py": 9.0, "tests/test_c.py": 12.0}
    tests = ["tests/test_c.py::test_1", "tests/integration/s3/test_a.py::test_2"]
    units = seconds_of_units(seconds)
    assert rank(tests[1], units) < rank(tests[0], units)
