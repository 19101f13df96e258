"""References, leases, ids, tasks and updateable values: the primitive of HEADs, for other systems
(docs/ids.md)."""
