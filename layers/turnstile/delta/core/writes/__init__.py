"""Pure: the conditional writes of a HEAD: ratification, of several commits too, and its state."""
