"""Garbage collection (design 2.6, I10): ``collector`` runs the scanners in ``kinds``; ``core`` decides what may go."""
