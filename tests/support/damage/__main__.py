"""``python -m tests.support.damage``: all damages, and a table of what came of them."""

import sys

from tests.support.damage.asking import run, table_of
from tests.support.damage.tables import TABLES

if __name__ == "__main__":
    chosen = [make for make in TABLES if make.__name__ in sys.argv[1:]] or TABLES
    sys.stdout.write(table_of(run(chosen, show=lambda text: sys.stderr.write(text + "\n"))) + "\n")
