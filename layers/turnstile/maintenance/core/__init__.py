"""Which files of a log make a state, what of it is kept, what is due. Pure."""
