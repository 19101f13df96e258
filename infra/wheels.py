"""Builds the wheels and source archives of the published packages: ``python infra/wheels.py dist``
(``make wheels``).

They are built from a copy of the files that git tracks, in which every ``pyproject.toml`` has the
version of this checkout (``turnstile_release``) in place of the release that is being worked on. So
the wheels of two commits have two versions, and each requires its siblings of exactly the same
commit.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from turnstile_release import BUILT, RELEASE, version

PROJECTS: Final = ("layers", "http_client", "spark_client", "python_client", ".")
ROOT: Final = Path(__file__).resolve().parents[1]


def copy(folder: Path, names: list[str], told: str) -> None:
    """Copies the files ``names`` of this checkout into ``folder``, as of the version ``told``."""
    for name in names:
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    for project in PROJECTS:
        file = folder / project / "pyproject.toml"
        file.write_text(file.read_text().replace(f'"{RELEASE}"', f'"{told}"').replace(f'=={RELEASE}"', f'=={told}"'))
    (folder / "layers" / "turnstile_release" / BUILT).write_text(told + "\n")


def build(out: Path) -> list[Path]:
    """Builds everything into ``out`` and returns the files. Raises CalledProcessError where a build
    fails."""
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    uv = Path(sys.executable).with_name("uv")
    with tempfile.TemporaryDirectory() as name:
        copy(Path(name), tracked.stdout.strip("\0").split("\0"), version())
        for project in PROJECTS:
            subprocess.run(
                [uv, "build", "--quiet", "--no-build-isolation", "--python", sys.executable, "--out-dir", out.resolve(),
                 Path(name) / project],
                check=True,
            )  # fmt: skip
    return sorted(out.glob(f"*{version()}*"))


def main() -> None:
    """Builds the archives, and lists them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="the folder for wheels and source archives")
    for path in build(parser.parse_args().out):
        print(f"{path}  {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
