"""Hermitage for lakehouses: which anomalies transactions over tables let happen:
``python -m benchmarks.hermitage``.

    ``cases``       the anomalies: steps of two or three transactions, and what shows that one happened
    ``running``     runs the steps one after the other, each transaction on a thread of its own
    ``over_spark``  transactions of a lake in Spark sessions, and plain Delta, where each statement is a transaction
    ``over_http``   transactions by the HTTP API alone: groups, with reads at a cut
    ``page``        what is expected of each, and the tables of docs/isolation.md

After Martin Kleppmann's Hermitage (https://github.com/ept/hermitage).
"""
