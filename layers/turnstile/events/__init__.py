"""Events of a catalog: changes of the catalog and of its tables, as a log that clients follow (ADR
26)."""
