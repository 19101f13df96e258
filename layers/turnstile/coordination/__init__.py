"""References, tasks and updateable values: the primitive of HEADs, for other systems."""
