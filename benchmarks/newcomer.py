"""A newcomer's first half hour, timed: ``python -m benchmarks.newcomer`` on a fresh clone of the
last commit.

Runs what README.md and docs/quickstart.md say, in their order, by the very lines of these pages:
set-up, server, console, a first table by SQL, two writers that race, a conflict that loses, a
second engine, a repair; then, on the same server, what the other pages mark as code that runs; and
the end. The section about S3 is left out: it wants a store. A step that fails ends the walk with
its output.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = "docs/quickstart.md"
LEFT_OUT: Final = ("Tables on S3",)
TWICE: Final = ("Let two writers race",)
"""Sections whose code two processes run at once."""
OF_FIRST_SESSION: Final = ("Attach Spark", "Look inside", "Lose a conflict")
"""Sections whose Python is typed into one session."""
PORT: Final = "8750"


class Block(NamedTuple):
    """Code of a page: its section, its language, and the request of the comment before it."""

    section: str
    language: str
    code: str
    run: str | None


_PARTS: Final = re.compile(
    r"^## (?:\d+\. )?([^\n]+)$|(?:<!-- run: (\w+) -->\n)?^```(sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL
)


def blocks(page: str) -> Iterator[Block]:
    """Yields the code of a page in order."""
    section = ""
    for title, run, language, code in _PARTS.findall(page):
        if title:
            section = title
        else:
            yield Block(section, language, code, run or None)


def pages(folder: Path) -> list[str]:
    """Returns the pages beside the quickstart that have code which is marked."""
    names = [f"docs/{path.name}" for path in sorted((folder / "docs").glob("*.md"))]
    return [name for name in names if name != PAGE and "<!-- run: " in (folder / name).read_text()]


class Walk:
    """The steps so far. ``folder`` is the clone; ``port`` stands for the one of the pages."""

    def __init__(self, folder: Path, port: str) -> None:
        self._folder = folder
        self._port = port
        self._steps = list[tuple[str, float]]()
        path = f"{folder / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
        url = f"http://127.0.0.1:{port}"
        self._environment = os.environ | {"TURNSTILE_PORT": port, "TURNSTILE_URL": url, "PATH": path}

    def run(self, name: str, *commands: list[str]) -> str:
        """Runs commands side by side as one step, and returns what they print."""
        began = time.monotonic()
        started = [
            subprocess.Popen(command, cwd=self._folder, env=self._environment, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            for command in commands
        ]  # fmt: skip
        printed = [process.communicate()[0] for process in started]
        self.note(name, time.monotonic() - began)
        for process, text in zip(started, printed, strict=True):
            if process.returncode:
                sys.exit(f"{name} failed with {process.returncode}:\n{text[-6_000:]}")
        return "".join(printed)

    def shell(self, name: str, code: str) -> str:
        return self.run(name, ["bash", "-eo", "pipefail", "-c", self._here(code)])

    def python(self, name: str, code: str, processes: int = 1) -> str:
        return self.run(name, *[[".venv/bin/python", "-c", self._here(code)]] * processes)

    def page(self, name: str) -> None:
        """Runs the blocks of a page that are marked: a story's in one shell, each other by
        itself."""
        marked = [block for block in blocks((self._folder / name).read_text()) if block.run]
        story = "".join(block.code for block in marked if block.run == "page")
        if story:
            self.shell(name, story)
        for block in marked:
            if block.run == "server":
                run = self.python if block.language == "python" else self.shell
                run(f"{name}: {block.section}" if block.section else name, block.code)

    def look_at(self, name: str, path: str) -> None:
        """A page of the server, as a browser asks for it."""
        began = time.monotonic()
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}") as response:
            if b"<html" not in response.read().lower():
                sys.exit(f"{name}: {path} is no page")
        self.note(name, time.monotonic() - began)

    def note(self, name: str, seconds: float) -> None:
        self._steps.append((name, seconds))
        print(f"{seconds:8.1f} s  {name}", flush=True)

    def total(self) -> float:
        return sum(seconds for _, seconds in self._steps)

    def _here(self, code: str) -> str:
        return code.replace(f"127.0.0.1:{PORT}", f"127.0.0.1:{self._port}")


def main() -> None:
    """The walk."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", default=PORT, help="another port than that of the pages, where it is taken")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="newcomer-") as name:
        folder = Path(name) / "turnstile"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
        walk = Walk(folder, options.port)
        sections = dict[str, list[Block]]()
        for block in blocks((folder / PAGE).read_text()):
            sections.setdefault(block.section, []).append(block)
        session = "\n".join(
            block.code for title in OF_FIRST_SESSION for block in sections[title] if block.language == "python"
        )
        try:
            for title, of_section in sections.items():
                if title in LEFT_OUT:
                    continue
                shell = "".join(block.code for block in of_section if block.language == "sh")
                python = "".join(block.code for block in of_section if block.language == "python")
                if title == OF_FIRST_SESSION[0]:
                    walk.look_at("the console opens", "/ui")
                    text = walk.python(
                        "a first table by SQL; look inside; lose a conflict (one Spark session)", session
                    )
                    if "lost:" not in text:
                        sys.exit(f"nothing lost a conflict:\n{text[-6_000:]}")
                elif python and title not in OF_FIRST_SESSION:
                    walk.python(title, python, 2 if title in TWICE else 1)
                if shell and "down" in shell:
                    for page in pages(folder):
                        walk.page(page)
                    shell = shell.splitlines()[0]
                if shell.startswith("make setup"):
                    for line in shell.splitlines():
                        walk.shell(line.removeprefix(".venv/bin/"), line)
                elif shell:
                    walk.shell(title, shell)
        finally:
            subprocess.run([".venv/bin/turnstile", "down"], cwd=folder, check=False, capture_output=True)
        print(f"{walk.total():8.1f} s  in all")


if __name__ == "__main__":
    main()
