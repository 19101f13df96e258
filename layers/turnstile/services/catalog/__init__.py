"""The catalog: a tree of immutable objs behind one HEAD, changed by writing objs and swapping the HEAD (design 2.4).

``reader``      names to tables, listings; cached without invalidation
``committer``   a change of the tree, retried until it is applied or refused for a reason
``store``       the objs of the tree
``catalogs`` ``namespaces`` ``staging`` ``register`` ``rename`` ``drop``    one operation a file
"""
