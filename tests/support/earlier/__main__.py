"""Writes a store by the code of a checkout: ``python -m tests.support.earlier CHECKOUT NAME``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.support.earlier.archive import DATA, MOST_BYTES
from tests.support.earlier.servers import write


def main() -> str | int:
    """Writes one store into ``tests/data/stores``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path, help="a folder with the project's files at some commit")
    parser.add_argument("name", help="the date and the commit, as 2026-11-23-4ab19e38")
    options = parser.parse_args()
    DATA.mkdir(parents=True, exist_ok=True)
    size = write(options.checkout.resolve(), options.name.rpartition("-")[2], DATA / f"{options.name}.tar.xz")
    if size > MOST_BYTES:
        return f"the store has {size} bytes, and {MOST_BYTES} are the most: tell a shorter story"
    print(f"{options.name}: {size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
