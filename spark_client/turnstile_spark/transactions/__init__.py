"""Transactions over several tables: the tables and held commits of a thread (``scope``), their
folding into one group (``folding``, ``groups``), and the recovery of a group that lost
(``read_sets``, ``judging``, ``rebasing``, ``reconciling``, ``retries``).
"""
