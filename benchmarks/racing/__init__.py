"""Many processes that commit to one table over HTTP, and the proof that the log is exactly what they were told.

    table     a catalog-managed table made with three requests and one file
    client    one proposal until its answer is final
    racers    what a process does: named versions with rebasing, or tickets
    heats     starts the processes, waits for the publisher, checks the log

``benchmarks/race.py`` prints the figures, ``tests/functional/delta/test_races.py`` asserts the properties.
"""
