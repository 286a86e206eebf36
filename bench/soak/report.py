"""Report the results of the run: a table of blocks of epochs, the flat figures, and a plot."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.measuring import RESULTS
from bench.target import Target

MEBIBYTE = 2**20
KIBIBYTE = 2**10

LEAST_EPOCHS = 500
"""With this many epochs, retention, caches and compactions have taken effect by the second tenth."""

Found = Mapping[str, Any]
"""A sample in the file of results."""


def blocks_of(results: Found) -> list[list[Found]]:
    """Return the samples in blocks; the last block also gets the epochs that do not fill another one."""
    size, samples = results["block"], results["samples"]
    blocks = [samples[start : start + size] for start in range(0, len(samples), size)]
    if len(blocks) > 1 and len(blocks[-1]) < size:
        blocks[-2:] = [blocks[-2] + blocks[-1]]
    return blocks


def seconds_of(sample: Found) -> float:
    """Return the seconds of an epoch without compaction."""
    return float(sample["inject_seconds"] + sample["run_seconds"])


def _require_long(results: Found) -> None:
    """Refuse to compare a run that is too short for its bounds to be reached in the second tenth."""
    if len(results["samples"]) < LEAST_EPOCHS:
        raise statistics.StatisticsError(f"a run of fewer than {LEAST_EPOCHS} epochs is too short to compare")


def _injecting(sample: Found) -> float:
    return float(sample["inject_seconds"])


def _in_all(kind: str, *, of_view: bool) -> Callable[[Found], float]:
    """Return a function that sums a count over the view, or over all control tables."""
    return lambda sample: sum(
        files[kind] for name, files in sample["tables"].items() if name.endswith("_view") is of_view
    )


def _first_and_last(results: Found, *, reads: bool) -> tuple[list[Found], list[Found]]:
    """Return the first and the last block with epochs of one kind only; the very first block warms up."""
    alike = [block for block in blocks_of(results)[1:] if {sample["reads"] for sample in block} == {reads}]
    if not alike:
        raise statistics.StatisticsError("no block has epochs of this kind only")
    return alike[0], alike[-1]


def _slower(figure: Callable[[Found], float], *, reads: bool) -> Callable[[Found], float]:
    """Return a function for the ratio of the times of the last and the first epochs of a kind."""

    def measured(results: Found) -> float:
        _require_long(results)
        first, last = (statistics.median(map(figure, block)) for block in _first_and_last(results, reads=reads))
        return last / first

    return measured


def _more(figure: Callable[[Found], float]) -> Callable[[Found], float]:
    """Return a function for the ratio of the maxima of the last and the second block."""

    def measured(results: Found) -> float:
        _require_long(results)
        blocks = blocks_of(results)
        return max(map(figure, blocks[-1])) / max(map(figure, blocks[1]))

    return measured


def _most(figure: Callable[[Found], float], unit: int = 1) -> Callable[[Found], float]:
    return lambda results: max(figure(sample) for block in blocks_of(results) for sample in block) / unit


FLAT = (
    Target("last epochs that read history, against the first", 1.25, "times", "soak", _slower(seconds_of, reads=True)),
    Target(
        "last epochs of a finished view, against its first", 1.25, "times", "soak", _slower(seconds_of, reads=False)
    ),
    Target("of which injecting", 1.25, "times", "soak", _slower(_injecting, reads=False)),
    Target("memory of Python after all epochs", 1.15, "times", "soak", _more(lambda found: found["python"]["now"])),
    Target("memory of Java", 1.15, "times", "soak", _more(lambda found: found["java"]["now"])),
    Target("of which Java needs", 1.15, "times", "soak", _more(lambda found: found["live_bytes"] or 0)),
    Target("files of the view", 1.25, "times", "soak", _more(_in_all("data", of_view=True))),
    Target("bytes of the view's log", 1.25, "times", "soak", _more(_in_all("log_bytes", of_view=True))),
    Target("files of the control tables at most", 500, "files", "soak", _most(_in_all("data", of_view=False))),
    Target("files of their logs at most", 100, "files", "soak", _most(_in_all("log", of_view=False))),
    Target("their bytes at most", 1, "MB", "soak", _most(_in_all("log_bytes", of_view=False), MEBIBYTE)),
)
"""The targets that make a run flat."""

_COLUMNS: dict[str, Callable[[Sequence[Found]], str]] = {
    "epochs": lambda block: f"{block[0]['epoch']:,} – {block[-1]['epoch']:,}",
    "that read": lambda block: f"{sum(sample['reads'] for sample in block):,}",
    "inject s": lambda block: f"{statistics.median(sample['inject_seconds'] for sample in block):.3f}",
    "run s": lambda block: f"{statistics.median(sample['run_seconds'] for sample in block):.2f}",
    "compact s": lambda block: f"{statistics.mean(sample['compact_seconds'] for sample in block):.2f}",
    "Python MB": lambda block: _largest(block, lambda sample: sample["python"]["now"] / MEBIBYTE),
    "Java MB": lambda block: _largest(block, lambda sample: sample["java"]["now"] / MEBIBYTE),
    "live MB": lambda block: _largest(block, lambda sample: (sample["live_bytes"] or 0) / MEBIBYTE),
    "view": lambda block: _largest(block, _in_all("data", of_view=True)),
    "its log": lambda block: _largest(block, _in_all("log", of_view=True)),
    "KB": lambda block: _largest(block, lambda sample: _in_all("log_bytes", of_view=True)(sample) / KIBIBYTE),
    "control": lambda block: _largest(block, _in_all("data", of_view=False)),
    "their logs": lambda block: _largest(block, _in_all("log", of_view=False)),
    "KB ": lambda block: _largest(block, lambda sample: _in_all("log_bytes", of_view=False)(sample) / KIBIBYTE),
}
"""The columns of the table of blocks: medians of seconds (means for compaction), maxima of everything else."""


def _largest(block: Sequence[Found], figure: Callable[[Found], float]) -> str:
    return f"{max(map(figure, block)):,.0f}"


def report(console: Console, results: Found) -> None:
    """Print and plot."""
    blocks = blocks_of(results)
    table = Table(title=f"{len(results['samples']):,} epochs of {results['strategy']}, one write before each")
    for column in _COLUMNS:
        table.add_column(column, justify="right", no_wrap=column == "epochs")
    for block in blocks:
        table.add_row(*(cell(block) for cell in _COLUMNS.values()))
    console.print(table)
    peaks = (
        f"{process} {results['samples'][-1][process.lower()]['peak'] >> 20:,} MB" for process in ("Python", "Java")
    )
    console.print(f"peaks: {', '.join(peaks)}")
    verdicts = Table("", "bound", "measured", "", title="flat?")
    for target in FLAT:
        verdicts.add_row(*target.row(_figure(target, results)))
    console.print(verdicts)
    console.print(f"plot: {plot(results)}")


def _figure(target: Target, results: Found) -> float | None:
    try:
        return target.figure(results)
    except statistics.StatisticsError:
        return None


def plot(results: Found) -> Path:
    """Draw seconds, memory, files and bytes of logs over the epochs."""
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    samples = results["samples"]
    epochs = [sample["epoch"] for sample in samples]
    panels: dict[str, dict[str, list[float]]] = {
        "seconds": {"epoch": [seconds_of(sample) for sample in samples]},
        "MB of memory": {
            process: [sample[process.lower()]["now"] / MEBIBYTE for sample in samples] for process in ("Python", "Java")
        },
        "files": {
            "view": [_in_all("data", of_view=True)(sample) for sample in samples],
            "its log": [_in_all("log", of_view=True)(sample) for sample in samples],
            "control tables": [_in_all("data", of_view=False)(sample) for sample in samples],
            "their logs": [_in_all("log", of_view=False)(sample) for sample in samples],
        },
        "KB of logs": {
            "view": [_in_all("log_bytes", of_view=True)(sample) / KIBIBYTE for sample in samples],
            "control tables": [_in_all("log_bytes", of_view=False)(sample) / KIBIBYTE for sample in samples],
        },
    }
    figure, axes = plt.subplots(len(panels), 1, sharex=True, figsize=(8, 10), layout="constrained")
    for axis, (label, lines) in zip(axes, panels.items(), strict=True):
        for name, values in lines.items():
            axis.plot(epochs, values, linewidth=0.8, label=name)
        axis.set_ylabel(label)
        axis.set_ylim(bottom=0)
        axis.legend(fontsize="small")
        axis.spines[["top", "right"]].set_visible(False)
    axes[-1].set_xlabel("epoch")
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / "soak.svg"
    figure.savefig(path)
    plt.close(figure)
    return path
