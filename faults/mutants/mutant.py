"""One mistake, and how it is put into a copy of the sources."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from faults.campaign import WrongError


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """
    One mistake.

    :param name: what it is called.
    :param breaks: what is wrong with it, in a sentence.
    :param invariant: the invariant that it breaks.
    :param file: the file that it is in.
    :param old: text that occurs in the file once.
    :param new: what stands there instead.
    :param killers: tests of which at least one fails.
    :param spark: whether these start Spark.
    """

    name: str
    breaks: str
    invariant: str
    file: str
    old: str
    new: str
    killers: tuple[str, ...]
    spark: bool = False

    def apply(self, root: Path) -> None:
        """Put the mistake into a copy of the sources."""
        file = root / self.file
        file.write_text(self.mutated(file.read_text(encoding="utf-8")), encoding="utf-8")

    def mutated(self, text: str) -> str:
        """
        Return the file's text with the mistake.

        :raises WrongError: if it isn't clear where it goes.
        """
        if text.count(self.old) != 1:
            raise WrongError(f"mutant {self.name}: its old text occurs {text.count(self.old)} times in {self.file}")
        return text.replace(self.old, self.new)
