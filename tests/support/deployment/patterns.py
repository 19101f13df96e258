"""Lists the regular expressions that starts of functions compile, in ``layers/patterns.json``:
``python -m tests.support.deployment.patterns`` (``make patterns``) adds those that are missing.

Some are of Python's own modules, so run it by the functions' Python too, with a built layer:
``--python python3.13 --layer FOLDER``.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Final

from layers.build import PATTERNS, listed_patterns
from tests.support.functions import cold_start
from tests.support.repository import ROOT
from turnstile.api.patterns import Pattern

FUNCTIONS: Final = sorted(path.parent.name for path in (ROOT / "functions").glob("*/app.py"))

UNSTABLE: Final = ("jwt.utils",)
"""Modules that make a pattern out of a set, another one in each process."""

_COMPILED: Final = """
import json, re, sys
compiled, compile = [], re._compiler.compile
def recorded(pattern, flags=0):
    frame = sys._getframe(1)
    while frame.f_globals["__name__"].partition(".")[0] in ("re", "string"):
        frame = frame.f_back
    compiled.append((pattern, int(flags), frame.f_globals["__name__"]))
    return compile(pattern, flags)
re._compiler.compile = recorded
import app
print(json.dumps([
    [pattern.decode("latin-1") if isinstance(pattern, bytes) else pattern, flags, isinstance(pattern, bytes), module]
    for pattern, flags, module in compiled
]))
"""


def compiled(function: str, python: str = sys.executable, layer: str = "") -> dict[Pattern, str]:
    """Returns the patterns that a start of ``function`` compiles, with the module of each."""
    variables = {"PYTHONPATH": layer} if layer else {}
    started = cold_start(function, _COMPILED, python=python, **variables)
    return {
        (pattern.encode("latin-1") if is_bytes else pattern, flags): module
        for pattern, flags, is_bytes, module in started
        if module not in UNSTABLE
    }


def main() -> None:
    """Adds to the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="runs the functions")
    parser.add_argument("--layer", default="", help="a built layer, for another Python")
    options = parser.parse_args()
    patterns = set(listed_patterns())
    for function in FUNCTIONS:
        patterns |= compiled(function, options.python, options.layer).keys()
    texts = sorted([pattern, flags] for pattern, flags in patterns if isinstance(pattern, str))
    raw = sorted([pattern.decode("latin-1"), flags] for pattern, flags in patterns if isinstance(pattern, bytes))
    lines = ",\n".join(json.dumps(each) for each in texts)
    PATTERNS.write_text(f'{{"bytes": {json.dumps(raw)},\n"str": [\n{lines}\n]}}\n')
    print(f"{len(patterns)} patterns in {PATTERNS.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
