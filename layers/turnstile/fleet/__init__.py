"""The fleet: servers and workers that share a store, and the assignment of work to them (ADR
46)."""
