"""The fleet: servers and workers that share a store, and who of them does which work (ADR 46)."""
