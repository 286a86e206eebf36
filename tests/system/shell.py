"""Commands typed into a shell, as pages show them."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path


def typed(command: str, folder: Path, environment: Mapping[str, str]) -> str:
    """Run a command, which must succeed, in a folder; return what it prints."""
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
