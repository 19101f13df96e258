"""Transactions over several tables.

``scopes``: the tables and the held commits of a thread; ``reads``: what its statements read;
``conflicts``: the checks, and the folding of its commits into one group, which ``parts``,
``requests`` and ``groups`` propose; ``recovery``: of a group that lost.
"""
