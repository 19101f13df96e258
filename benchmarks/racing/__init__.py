"""Many processes that commit to one table over HTTP, and the proof that the log is exactly what was
acknowledged.

    table     a catalog-managed table made with three requests and one file, and commits to it
    racers    what a process does: named versions with rebasing, or tickets
    heats     starts the processes, waits for the publisher, checks the log

``benchmarks/race.py`` prints the figures, ``tests/functional/delta/test_races.py`` asserts the
properties.
"""
