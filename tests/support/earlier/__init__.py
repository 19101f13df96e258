"""Stores that earlier states of the code wrote, with the requests that made them and the answers.

``exchanges``  a request, its answer, and how the two are asked again
``story``      the requests that fill a store
``archive``    a store, its tables' files and the exchanges, packed into one file
``answers``    versions and identities in the exchanges
``servers``    servers of other states of the code

``python -m tests.support.earlier CHECKOUT NAME`` writes the store of another checkout of this
project into ``tests/data/stores``; ``tests/functional/upgrades`` opens each with today's code.
"""
