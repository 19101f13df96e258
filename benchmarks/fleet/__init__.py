"""The fleet's membership and ownership beside ZooKeeper and etcd: the same work, on this machine,
in one run (ADR 46).

    python -m benchmarks.fleet scale-out --granules 1000            # 1 to 2, 2 to 4, 4 to 8, 8 to 16 members
    python -m benchmarks.fleet failover                             # a member is killed, another one frozen
    python -m benchmarks.fleet crowd --members 160                  # many members on one system table
    python -m benchmarks.fleet modelled                             # scale-out in virtual time, on a modelled DynamoDB
    python -m benchmarks.fleet cost                                 # requests, units and dollars; nothing is measured
    python -m benchmarks.fleet scale-out --out fleet.jsonl
    python -m benchmarks.fleet.plot fleet.jsonl

Every member of scale-out and failover is a process of its own, and every server a real one. What is
compared:

    sqlite, dynamodb   ``turnstile.fleet`` on one SQLite file, and on dynoxide (in memory: it syncs nothing)
    zookeeper, etcd    members are ephemeral nodes, or keys with a lease; each granule is
                       a node, or a key, with its owner; granules change hands in multis, or
                       transactions, that compare their versions, with an entry that tells the
                       receiver (``coordinated``)

All decide alike who gives what to whom (``turnstile.fleet.core.decisions.surplus``). ZooKeeper's
and etcd's members are told of granules that come to them and know of no others; Turnstile's know
the owner of each.
"""
