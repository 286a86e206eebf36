"""What commands print: text as it is, and JSON for programs."""

from __future__ import annotations

import json

from airflow_backfill_provider.cli.output import console, print_json


def test_text_is_printed_as_it_is(capsys):
    """A path may look like markup, and must not be broken into lines."""
    text = "[bold]läke[/bold] :smile: " + "x" * 500 + " 7"
    console().print(text)
    assert capsys.readouterr().out == f"{text}\n"


def test_json_keeps_every_character(capsys):
    value = {"name": "läke o'brien", "rows": [1, None, True]}
    print_json(value)
    out = capsys.readouterr().out
    assert json.loads(out) == value
    assert "läke" in out
