"""The program: its commands, and how it is used."""

from __future__ import annotations

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from airflow_backfill_provider.cli.main import PANELS, app, main

pytestmark = pytest.mark.slow  # starts processes


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["run"],
        ["status", "/does/not/exist.yaml"],
        ["run", "{job}", "--max-epochs", "0"],
        ["run", "{job}", "--conf", "novalue"],
        ["throttle", "{job}"],
        ["plan", "{job}", "--nope"],
    ],
)
def test_wrong_usage(created, arguments):
    result = CliRunner().invoke(app, [argument.format(job=created.file) for argument in arguments])
    assert result.exit_code == 2


def test_version_and_help():
    assert CliRunner().invoke(app, ["--version"]).stdout.startswith("airflow-backfill 0.")
    help_text = CliRunner().invoke(app, ["--help"]).stdout
    for command in "plan create run status watch pause resume throttle rescale verify cancel rebuild".split():
        assert command in help_text
        assert CliRunner().invoke(app, [command, "--help"]).exit_code == 0


def test_commands_without_spark_import_neither_spark_nor_airflow(created):
    program = (
        "import sys\n"
        "from airflow_backfill_provider.cli.main import main\n"
        "for command, *values in (['status'], ['plan'], ['throttle', '7']):\n"
        "    sys.argv[:] = ['airflow-backfill', command, JOB, *values]\n"
        "    try: main()\n"
        "    except SystemExit as end: print(command, end.code, file=sys.stderr)\n"
        "print(*sorted({'pyspark', 'airflow'} & set(sys.modules)), 'imported', file=sys.stderr)\n"
    )
    command = [sys.executable, "-c", f"JOB = {str(created.file)!r}\n{program}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr.splitlines() == ["status 0", "plan 0", "throttle 0", "imported"]


def test_each_command_is_in_the_help_with_a_description():
    commands = [command for panel in PANELS.values() for command in panel]
    assert len(commands) == len(set(commands)) == len(app.registered_commands)
    assert all(command.__doc__ for command in commands)
    work = "create run compact forget rebuild revert"
    steps = "plan status watch verify why diff pause resume throttle rescale repair approve cancel"
    set_up = "fetch_jars archive_classes build_log_store sample examples constraints"
    assert {command.__name__ for command in commands} == {*work.split(), "change", *steps.split(), *set_up.split()}
    assert [group.name for group in app.registered_groups] == ["engine"]


def test_a_program_that_is_interrupted_anywhere_ends_with_one_line(monkeypatch, capsys):
    def interrupt():
        raise KeyboardInterrupt

    monkeypatch.setattr("airflow_backfill_provider.cli.main.app", interrupt)
    with pytest.raises(SystemExit) as end:
        main()
    assert (end.value.code, capsys.readouterr().err.count("\n")) == (130, 1)


@pytest.mark.parametrize(("arguments", "code"), [(["--version"], 0), (["no-such-command"], 2)])
def test_the_process_ends_with_the_commands_code_after_all_output_and_what_is_registered_for_the_end(arguments, code):
    program = (
        "import atexit, sys\n"
        "from airflow_backfill_provider.cli.main import command_line\n"
        "atexit.register(print, 'the end')\n"
        f"sys.argv[1:] = {arguments}\n"
        "command_line()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (code, "the end")
