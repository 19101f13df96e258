"""Pure: the rows of references, tasks and updateable values."""
