"""Several Delta tables at once: groups of commits, their journal, reservations, and cuts."""
