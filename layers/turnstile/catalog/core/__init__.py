"""Pure: the tree, its index and entities, and the conditional writes on the rows of a catalog."""
