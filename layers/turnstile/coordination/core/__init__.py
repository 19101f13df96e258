"""Pure: the rows of references, leases, tasks and updateable values; snowflake ids."""
