"""The version of this code: the one place that functions, servers, clients and the command line
ask.

``RELEASE`` is the release that this code is, or is on the way to: the next tag ``v<RELEASE>``. Code
of a commit before the tag has a development version that names the commit (PEP 440), such as
``0.1.0.dev938+g9c81052b``. Builds (``layers/build.py``, ``infra/wheels.py``, the Dockerfile) write
the version into ``built.txt`` beside this module; in a checkout git says it.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

RELEASE: Final = "0.1.0"
BUILT: Final = "built.txt"

_HERE: Final = Path(__file__).resolve().parent


@cache
def version() -> str:
    """Returns the version of the code that runs; ``<RELEASE>+unknown`` where neither a build nor
    git says it."""
    built = _HERE / BUILT
    if built.is_file():
        return built.read_text().strip()
    return of_checkout(_HERE.parents[1]) or f"{RELEASE}+unknown"


def of_checkout(root: Path) -> str | None:
    """Returns the version of the checkout in ``root``; None for a folder that is none, or without
    git."""
    if not (root / ".git").exists():
        return None
    commit = _git(root, "describe", "--tags", "--always", "--long", "--dirty", "--abbrev=8", "--match", "v[0-9]*")
    count = _git(root, "rev-list", "--count", "HEAD")
    return of_description(commit, count) if commit and count else None


def of_description(description: str, count: str) -> str:
    """Returns the version that ``git describe --long`` means; ``count`` is the number of commits so
    far."""
    name = description.removesuffix("-dirty")
    changed = name != description
    tag, _, rest = name.partition("-")
    since, _, commit = rest.rpartition("-g")
    if tag == f"v{RELEASE}" and since == "0" and not changed:
        return RELEASE
    return f"{RELEASE}.dev{count}+g{commit or name}" + (".dirty" if changed else "")


def _git(root: Path, *arguments: str) -> str:
    import subprocess  # a function asks no git, and starts without it

    try:
        done = subprocess.run(  # noqa: S603 - fixed arguments, of a checkout only
            ["git", "-C", str(root), *arguments],  # noqa: S607 - wherever git is installed
            capture_output=True,
            text=True,
            check=False,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
