"""Play some mutants, by their names or by the tests that find them: ``python -m faults.mutants NAME_OR_TEST…``."""

from __future__ import annotations

import random
import sys

from faults.campaign import WrongError
from faults.mutants import CASES, Case, play


def chosen(asked: list[str]) -> list[int]:
    """Return the numbers of the cases that play some mutants, or those that tests find; a test may be a whole file."""
    return [number for number, case in enumerate(CASES) if _is_asked(case, asked)]


def _is_asked(case: Case, asked: list[str]) -> bool:
    if case.mutant is None:
        return False
    return case.mutant.name in asked or any(killer.startswith(tuple(asked)) for killer in case.killers)


def main(asked: list[str]) -> int:
    """Play them; return 1 if a mutant survives, and 2 if there are none of these names."""
    numbers = chosen(asked)
    wrong = 0
    for number in numbers:
        try:
            print(play(number, random.Random()).about)
        except WrongError as error:
            wrong += 1
            print(error)
    if not numbers:
        print(f"no mutant has one of these names, and none of these tests finds any: {', '.join(asked)}")
        return 2
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
