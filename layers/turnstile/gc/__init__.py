"""Garbage collection (design 2.6, I10): ``core`` decides what may go, ``kinds`` has a scanner for each kind of garbage,
``collector`` runs them."""
