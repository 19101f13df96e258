"""Pure: principals, privileges, grants, and the rules that compare them (I12). Trees carry them, so
they stand below the catalog."""
