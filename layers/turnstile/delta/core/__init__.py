"""Pure: the HEAD of a table, the decision on a proposal, the content of commits, and the writes on
a HEAD."""
