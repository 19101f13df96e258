"""The member of a fleet: its share of the work, its events, and requests forwarded to an owner."""
