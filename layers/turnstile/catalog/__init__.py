"""A catalog: a tree of immutable objs behind one HEAD, changed by writing objs and swapping the
HEAD (design 2.4)."""
