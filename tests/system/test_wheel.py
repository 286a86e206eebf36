"""The wheel, installed outside of the checkout: it is whole, and the first tutorial works as it is written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from docs.blocks import ROOT, run_by
from tests.system.shell import typed
from tests.variants import exhaustive

pytestmark = pytest.mark.slow

HERE = "tests/system/test_wheel.py"


def lines_of(page: str) -> list[str]:
    """Return the commands of a page, from top to bottom."""
    return [line for block in run_by(HERE, page) for line in block.commands]


TUTORIAL = lines_of("docs/tutorials/first-view.md")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, as `make dist` builds it."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> tuple[Path, dict[str, str]]:
    """
    A folder outside of the checkout, and the environment of its Python, in which the package comes from the wheel.

    What the package depends on comes from this Python's packages: they are the locked ones.
    """
    folder = tmp_path_factory.mktemp("elsewhere")
    venv.create(folder / "venv", with_pip=True)
    binaries = folder / "venv" / "bin"
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    own = folder / "venv" / "lib" / python / "site-packages"
    (own / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n", encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {
        "PATH": f"{binaries}:{environment['PATH']}",
        "PYSPARK_PYTHON": str(binaries / "python"),
        "AIRFLOW_BACKFILL_JARS": str(Path(sys.prefix, "share", "airflow-backfill", "jars")),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    install = [str(binaries / "python"), "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(install, check=True, cwd=folder, env=environment, timeout=300)
    return folder, environment


def run(elsewhere: tuple[Path, dict[str, str]], command: str) -> str:
    """Run a command line there; it must succeed."""
    return typed(command, *elsewhere)


def test_the_five_lines_begin_the_tutorial_and_the_first_installs():
    assert lines_of("README.md") == lines_of("docs/index.md") == TUTORIAL[:5]
    assert [line.startswith("pip install ") for line in TUTORIAL] == [True] + [False] * (len(TUTORIAL) - 1)


def test_the_package_comes_from_the_wheel(elsewhere):
    where = run(elsewhere, "python -c 'import airflow_backfill_provider as package; print(package.__file__)'")
    assert where.startswith(str(elsewhere[0]))


def test_the_wheel_brings_what_operators_and_commands_look_for(elsewhere):
    run(elsewhere, "airflow-backfill examples dags")
    assert (elsewhere[0] / "dags" / "backfill_manual.py").is_file()
    assert "pyspark==" in run(elsewhere, "airflow-backfill constraints")
    run(
        elsewhere,
        "python -c 'from airflow_backfill_provider.hooks.spark_application import application_path as path\n"
        'assert path("backfill_epoch.py").is_file()\'',
    )


@pytest.mark.parametrize(
    "first",
    [pytest.param("create", marks=pytest.mark.smoke), exhaustive("", name="each line starts a Spark of its own")],
)
@pytest.mark.spark
def test_the_tutorial_ends_with_a_verified_view(elsewhere, spark_remote, first):
    """
    Also after the table has changed.

    :param first: the command that starts a Spark of its own, as each does for a new user. In `make test`, the commands
        after it use the tests' Spark, because each start takes longer than all that the command does.
    """
    folder, environment = elsewhere
    verified = []
    for line in TUTORIAL[1:]:
        said = typed(line, folder, environment)
        if first and f" {first} " in line:
            environment = {**environment, "SPARK_REMOTE": spark_remote}
        if " verify " in line:
            verified.append(re.search(r"as of epoch (\d+).* 0 missing, 0 unexpected, 0 repeated, 0 different", said))
    before, after = verified
    assert before
    assert after
    assert int(after[1]) > int(before[1])
