"""Import every module of the package, and print their number."""

from __future__ import annotations

import importlib
import pkgutil

import airflow_backfill_provider as package


def main() -> None:
    """Import the modules in the order of their names, until one fails."""
    names = sorted(module.name for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."))
    for name in names:
        importlib.import_module(name)
    print(f"{package.__name__}: all {len(names)} modules can be imported")


if __name__ == "__main__":
    main()
