"""Garbage collection (design 2.6, I10). One module for each kind of garbage; ``core`` decides what may go."""
