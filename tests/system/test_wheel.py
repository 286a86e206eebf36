"""The wheel, installed outside of the checkout: it is whole, and the README's first lines work as they are written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def first_lines() -> list[str]:
    """Return the commands of the README's section "In five lines"."""
    section = README.partition("## In five lines")[2].partition("\n## ")[0]
    block = re.search(r"```\n(.*?)```", section, re.DOTALL)
    assert block, "the README has no block of commands in its section In five lines"
    return block.group(1).splitlines()


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
    folder, environment = elsewhere
    done = subprocess.run(
        ["/bin/bash", "-c", command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_readme_has_five_lines_and_the_first_installs():
    first, *others = first_lines()
    assert first.startswith("pip install ")
    assert len(others) == 4


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


@pytest.mark.smoke
@pytest.mark.spark
def test_the_lines_of_the_readme_end_with_a_verified_view(elsewhere):
    *lines, last = first_lines()[1:]
    for line in lines:
        run(elsewhere, line)
    said = run(elsewhere, last)
    assert re.search(r"[1-9][0-9,]* rows expected, 0 missing, 0 unexpected, 0 repeated, 0 different", said)
