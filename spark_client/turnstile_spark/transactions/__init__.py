"""Transactions over several tables: what a thread sees and holds back (``scope``), how it becomes one group (``folding``,
``groups``), and what becomes of one that others came before (``read_sets``, ``judging``, ``rebasing``, ``reconciling``, ``retries``).
"""
