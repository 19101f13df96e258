"""Many writers that change one catalog, what that costs, and the proof that its log is exactly what
was acknowledged.

    metering    ports that count requests, write units and objs, and that answer as late as a service in a network does
    worlds      worlds to race in: DynamoDB's API behind a URL, or tables in memory, also in virtual time
    writers     what one writer does: numbered changes, each sent until its outcome is final
    heats       writers as threads or as processes, all starting together, and the check of the catalog's log

``benchmarks/catalog_commits.py`` prints the figures,
``tests/contract/store/test_gapless_catalog_log.py`` asserts the properties.
"""
