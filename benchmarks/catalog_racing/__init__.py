"""Many writers that change one catalog, what that costs, and the proof that its log is exactly what they were told.

    metering    ports that count requests, write units and objs, and that answer as late as a service in a network does
    virtual     time in which only requests and pauses take any, whatever else the machine does
    places      worlds to race in: DynamoDB's API behind a URL, or tables in memory
    writers     what one writer does: numbered changes, each sent until its answer is final
    heats       writers as threads or as processes, all starting together
    audit       the catalog's log, walked every way there is, held against what the writers were told

``benchmarks/catalog_commits.py`` prints the figures, ``tests/contract/store/test_gapless_catalog_log.py`` asserts the properties.
"""
