"""Events of a catalog: what became of its tables and of itself, as a log that clients follow (ADR 26)."""
