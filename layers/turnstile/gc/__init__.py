"""Garbage collection (design 2.6, I10): ``collector`` runs the scanners in ``kinds``; ``core`` has
the rules of removal."""
