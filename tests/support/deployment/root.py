"""A root folder with the functions' Python, for machines that have another: Debian's packages, made
once into the cache folder.

Programs run in it with a file system of their own: of this machine they see the folders that they
are given, its devices, its certificates and its network. Nothing stays mounted when they end.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support.downloads import Missing, alone, cache
from tests.support.repository import ROOT

SUITE: Final = "trixie"
"""Debian's release with Python 3.13."""

PACKAGES: Final = "python3,python3-venv,make,unzip"
ENVIRONMENTS: Final = ("sam", "localemu", "lambda")
"""Each is ``infra/NAME.txt`` in an environment of its own, ``/opt/NAME-DIGEST``."""

_HANDED_ON: Final = (
    "SSL_",
    "PIP_",
    "UV_",
    "CURL_CA_",
    "REQUESTS_CA_",
    "HTTP_",
    "HTTPS_",
    "NO_PROXY",
    "http_",
    "https_",
    "no_proxy",
)
"""Beginnings of variables that say how packages are fetched here."""

_SHARED: Final = ("/etc/resolv.conf", "/etc/hosts", "/etc/ssl", "/dev")


@dataclass(frozen=True)
class Root:
    """``folder`` is the root; ``environments`` are paths in it, by their names."""

    folder: Path
    environments: Mapping[str, str]

    def program(self, environment: str, name: str) -> str:
        """The path, in the root, of a program of an environment."""
        return f"{self.environments[environment]}/bin/{name}"

    def command(
        self, words: Sequence[str], *, folders: Iterable[Path], variables: Mapping[str, str], at: Path
    ) -> list[str]:
        """Returns the command that runs ``words`` in the root, in the folder ``at``, and all that
        they start; when it ends, they end.

        Args:
            folders: of this machine, that are seen at the same paths.
            variables: the environment, beside what says how packages are fetched.
        """
        return command_in(self.folder, words, folders=folders, variables=variables, at=at)


def command_in(
    root: Path, words: Sequence[str], *, folders: Iterable[Path], variables: Mapping[str, str], at: Path
) -> list[str]:
    """As ``Root.command``, in a root that may have no environment yet."""
    handed_on = {name: value for name, value in os.environ.items() if name.startswith(_HANDED_ON)}
    paths = [Path(value) for value in handed_on.values() if value.startswith("/") and Path(value).exists()]
    shared = [Path(name) for name in _SHARED if Path(name).exists()]
    lines = ["set -e"]
    for path in [*shared, *paths, *folders]:
        inside = shlex.quote(f"{root}{path}")
        made = (
            f"mkdir -p {inside}" if path.is_dir() else f"mkdir -p {shlex.quote(f'{root}{path.parent}')}; touch {inside}"
        )
        lines.append(f"{made}; mount --rbind {shlex.quote(str(path))} {inside}")
    lines.append(f"mount -t proc proc {shlex.quote(f'{root}/proc')}")
    environment = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/root",
        "LANG": "C.UTF-8",
        **handed_on,
        **variables,
    }
    inner = ["env", "-i", *(f"{name}={value}" for name, value in environment.items()), *words]
    lines.append(
        f"exec chroot {shlex.quote(str(root))} sh -c "
        f"{shlex.quote(f'cd {shlex.quote(str(at))} && exec {shlex.join(inner)}')}"
    )
    return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", "\n".join(lines)]


def make() -> Root:
    """Returns the root. The first call makes it: a minute of Debian's packages, half a minute of
    Python's. Of two processes at a time one waits.

    Raises:
        Missing: this machine cannot have it, or a package could not be fetched.
    """
    if os.geteuid() != 0:
        raise Missing("a root with Python 3.13 needs mounts, which this user may not do: run it as root")
    _run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "true"], "this machine allows no mounts of its own")
    home = cache("python3.13-root")
    folder = home / f"{SUITE}-{hashlib.sha256(PACKAGES.encode()).hexdigest()[:8]}"
    with alone(home):
        if not folder.exists():
            _bootstrap(home, folder)
        environments = {name: _environment(folder, name) for name in ENVIRONMENTS}
    return Root(folder, environments)


def _bootstrap(home: Path, folder: Path) -> None:
    program = shutil.which("debootstrap")
    if program is None:
        install = "apt-get install --yes --quiet debootstrap"
        _run(["sh", "-c", f"{install} || {{ apt-get update && {install}; }}"], "debootstrap could not be installed")
        program = "debootstrap"
    with tempfile.TemporaryDirectory(dir=home) as name:
        made = Path(name) / "root"
        _run(
            [program, "--variant=minbase", f"--include={PACKAGES}", SUITE, str(made)],
            "Debian's packages could not be had",
        )
        made.chmod(0o755)
        made.rename(folder)


def _environment(root: Path, name: str) -> str:
    """Path, in the root, of the environment with what ``infra/NAME.txt`` locks."""
    lock = ROOT / "infra" / f"{name}.txt"
    inside = f"/opt/{name}-{hashlib.sha256(lock.read_bytes()).hexdigest()[:12]}"
    done = Path(f"{root}{inside}/.complete")
    if not done.exists():
        uv = ROOT / ".venv/bin/uv"
        words = (
            f"python3 -m venv --clear {inside} && {uv} pip install --quiet --python {inside}/bin/python "
            f"--require-hashes -r {lock}"
        )
        stored = Path(subprocess.run([uv, "cache", "dir"], capture_output=True, text=True, check=True).stdout.strip())
        stored.mkdir(parents=True, exist_ok=True)
        variables = {"UV_LINK_MODE": "copy", "UV_CACHE_DIR": str(stored)}
        command = command_in(root, ["sh", "-c", words], folders=[ROOT, stored], variables=variables, at=ROOT)
        _run(command, f"{lock.name} could not be installed")
        done.touch()
    return inside


def _run(command: list[str], failed: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise Missing(f"{failed}: {error}") from error
    if done.returncode:
        raise Missing(f"{failed}: {(done.stderr or done.stdout)[-500:].strip()}")
