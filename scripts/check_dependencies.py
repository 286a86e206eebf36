"""Check that the lock files hold all dependencies, and that none of them has a known vulnerability.

The first part needs only ``pyproject.toml``, the lock file of each Python, the versions for users, and the lowest set
that ``make check-lowest`` installs. In the lowest set each of the package's own dependencies has the lower bound of
``pyproject.toml``. The second part asks an advisory service, through pip-audit. If the service does not answer, the
script prints that nothing was audited; with ``REQUIRE_AUDIT=1`` in the environment this is a failure.

Exit codes: 0 no problem, or not audited and not required; 1 a problem was found.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

FOLDER = Path("constraints")
PYTHONS = ("3.11", "3.12", "3.13")
LOWEST = FOLDER / "lowest-python-3.11.txt"
PROJECT = Path("pyproject.toml")

REQUIRED = "REQUIRE_AUDIT"

SERVICE = "osv"
"""The service with the advisories of Python's packaging authority and of GitHub. It gets names and versions only."""

SECONDS = 600

_HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}(?=\s|$)")


@dataclass(frozen=True, slots=True)
class Locked:
    """
    A package in the lock file.

    :param requirement: name and version as in the lock file.
    :param hashes: how many hashes of its files the lock file has.
    """

    requirement: Requirement
    hashes: int

    @property
    def name(self) -> str:
        """The normalized name."""
        return canonicalize_name(self.requirement.name)

    @property
    def version(self) -> str | None:
        """The version, if the package is pinned to one."""
        specifiers = list(self.requirement.specifier)
        pinned = len(specifiers) == 1 and specifiers[0].operator == "==" and not specifiers[0].version.endswith(".*")
        return specifiers[0].version if pinned else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Advisory:
    """
    A known vulnerability of a locked package.

    :param names: the vulnerability's identifiers in all databases.
    :param fixed_in: the versions that fix it.
    """

    package: str
    version: str
    names: tuple[str, ...]
    fixed_in: tuple[str, ...]

    def __str__(self) -> str:
        fixed = f"fixed in {', '.join(self.fixed_in)}" if self.fixed_in else "no fixed version is known"
        return f"{self.package} {self.version}: {' = '.join(self.names)} ({fixed})"


class NotAuditedError(Exception):
    """The advisory service did not answer for every package."""


def read_lock(text: str) -> list[Locked]:
    """Return the packages of a lock file."""
    lines = re.sub(r"\\\n", " ", text).splitlines()
    entries = (line.split(" #")[0].strip() for line in lines if line.strip() and not line.lstrip().startswith("#"))
    return [Locked(Requirement(entry.split(" --hash")[0].strip()), len(_HASH.findall(entry))) for entry in entries]


def own_requirements(project: Mapping[str, Any]) -> list[Requirement]:
    """Return what the package and its extras require; what its developers need is a dependency group."""
    extras = project["project"].get("optional-dependencies", {}).values()
    return [
        Requirement(one) for one in (*project["project"]["dependencies"], *(one for some in extras for one in some))
    ]


def faults_of_lock(locked: Sequence[Locked], project: Mapping[str, Any]) -> Iterator[str]:
    """
    Yield the faults of a lock file.

    :param project: the content of ``pyproject.toml``; the lock file must meet its requirements.
    """
    versions: dict[str, str | None] = {}
    for package in locked:
        if package.name in versions:
            yield f"{package.name} is locked twice"
        versions[package.name] = package.version
        if package.version is None:
            yield f"{package.requirement} is not pinned to one version"
        if not package.hashes:
            yield f"{package.name} has no SHA-256 hash"
    tools = [one for group in project.get("dependency-groups", {}).values() for one in group]
    for requirement in (*own_requirements(project), *map(Requirement, tools)):
        version = versions.get(canonicalize_name(requirement.name))
        if version is None:
            yield f"{requirement.name} is required by {PROJECT}, but not locked"
        elif not requirement.specifier.contains(version, prereleases=True):
            yield f"{requirement.name} is locked at {version}, but {PROJECT} requires {requirement.specifier}"


def faults_of_lowest(lowest: Sequence[Locked], project: Mapping[str, Any]) -> Iterator[str]:
    """
    Yield the faults of the lowest set, in addition to those of any lock file.

    :param project: the content of ``pyproject.toml``; the lowest set must have its lower bounds.
    """
    versions = {package.name: package.version for package in lowest}
    for requirement in own_requirements(project):
        bound = next((one.version for one in requirement.specifier if one.operator in {">=", "=="}), None)
        version = versions.get(canonicalize_name(requirement.name))
        if bound is None:
            yield f"{PROJECT} gives {requirement.name} no lower bound"
        elif version is not None and Version(version) != Version(bound):
            yield f"{PROJECT} allows {requirement.name} from {bound} on, but the lowest that is tested is {version}"


def faults_of_runtime(runtime: Sequence[Locked], locked: Sequence[Locked]) -> Iterator[str]:
    """
    Yield the faults of the versions for users.

    :param locked: the lock file for the same Python; the versions must be the same.
    """
    versions = {package.name: package.version for package in locked}
    for package in runtime:
        if package.hashes:
            yield f"{package.name} has a hash; then pip demands one of the user's own packages, too"
        if package.version is None or package.version != versions.get(package.name):
            yield f"{package.requirement} is not the version of the lock file, {versions.get(package.name)}"


def audit(lock: Path, locked: Sequence[Locked]) -> list[Advisory]:
    """
    Ask the advisory service about every locked package.

    :raises NotAuditedError: if it does not answer for all of them.
    """
    command = [sys.executable, "-m", "pip_audit", "--requirement", str(lock), "--disable-pip", "--require-hashes"]
    options = ["--vulnerability-service", SERVICE, "--format", "json", "--aliases", "on", "--progress-spinner", "off"]
    try:
        done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise NotAuditedError(f"no answer within {SECONDS} seconds") from error
    try:
        answered = json.loads(done.stdout)["dependencies"]
        audited = {canonicalize_name(found["name"]): found for found in answered if "vulns" in found}
    except (ValueError, LookupError, TypeError) as error:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        raise NotAuditedError(said[-1] if said else f"pip-audit ended with {done.returncode} and no output") from error
    if left_out := sorted({package.name for package in locked} - audited.keys()):
        raise NotAuditedError(f"no answer for {', '.join(left_out)}")
    return [
        Advisory(
            package=name,
            version=found["version"],
            names=(vulnerability["id"], *vulnerability.get("aliases", ())),
            fixed_in=tuple(vulnerability["fix_versions"]),
        )
        for name, found in audited.items()
        for vulnerability in found["vulns"]
    ]


def judged(advisories: Sequence[Advisory], accepted: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """
    Return the advisories that are not accepted, and notes about the accepted ones.

    :param accepted: identifiers of advisories, each with the reason why it does no harm here.
    """
    wrong, notes = [], []
    for advisory in advisories:
        reason = next((accepted[name] for name in advisory.names if name in accepted), None)
        if reason is None:
            wrong.append(str(advisory))
        else:
            notes.append(f"accepted: {advisory}: {reason}")
    there = {name for advisory in advisories for name in advisory.names}
    notes += [
        f"{name} no longer needs to be accepted: no locked package has it" for name in accepted if name not in there
    ]
    return wrong, notes


def accepted_in(project: Mapping[str, Any]) -> dict[str, str]:
    """
    Return the accepted advisories with their reasons.

    :raises ValueError: if one has no reason.
    """
    accepted = project.get("tool", {}).get("check-dependencies", {}).get("accepted", {})
    for name, reason in accepted.items():
        if not isinstance(reason, str) or not reason.strip():
            raise ValueError(
                f"tool.check-dependencies.accepted: give the reason in {PROJECT} why {name} does no harm here"
            )
    return dict(accepted)


def main() -> int:
    """Run both checks, and return the exit code."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))
    accepted = accepted_in(project)
    locks = {FOLDER / f"python-{python}.txt": FOLDER / f"runtime-python-{python}.txt" for python in PYTHONS}
    locked = {file: read_lock(file.read_text(encoding="utf-8")) for file in locks}
    for file, runtime in locks.items():
        if faults := list(faults_of_lock(locked[file], project)):
            return _fail(f"{file} is wrong; run make lock:", faults)
        if faults := list(faults_of_runtime(read_lock(runtime.read_text(encoding="utf-8")), locked[file])):
            return _fail(f"{runtime} is wrong; run make lock:", faults)
        print(f"{file}: {len(locked[file])} packages, each pinned and with hashes, and all that {PROJECT} requires")
    lowest = read_lock(LOWEST.read_text(encoding="utf-8"))
    if faults := [*faults_of_lock(lowest, project), *faults_of_lowest(lowest, project)]:
        return _fail(f"{LOWEST} is wrong; run make lock, or raise a lower bound that cannot be installed:", faults)
    print(f"{LOWEST}: the package's own dependencies, each at its lower bound")
    try:
        advisories = [advisory for file, packages in locked.items() for advisory in audit(file, packages)]
    except NotAuditedError as error:
        required = os.environ.get(REQUIRED, "") not in {"", "0"}
        hint = "" if required else f" That is no failure unless {REQUIRED}=1."
        print(f"NOT AUDITED: whether they have known vulnerabilities is unknown: {error}.{hint}", file=sys.stderr)
        return int(required)
    wrong, notes = judged(list(dict.fromkeys(advisories)), accepted)
    for note in notes:
        print(note)
    if wrong:
        return _fail(
            f"known vulnerabilities; raise the versions (make lock ARGS=--upgrade), or accept them in {PROJECT} under "
            "tool.check-dependencies.accepted, with the reason why they do no harm here:",
            wrong,
        )
    packages = {(package.name, package.version) for some in locked.values() for package in some}
    print(f"none of the {len(packages)} packages has a known vulnerability that is not accepted")
    return 0


def _fail(what: str, lines: Sequence[str]) -> int:
    print("\n  ".join([what, *lines]), file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
