"""Turnstile: a commit coordinator for Delta and Iceberg tables, deployed as one Lambda layer.

One folder for each subject. In each, ``core`` is the pure part: functions of their arguments,
without clock, random numbers, threads, files or cloud clients. The modules beside ``core`` do the
work through the ports of ``store``.

``store``         the two tables and the log storage: conditional writes as data, keys, ports,
errors ``delta``         one Delta table: ratify, publish, recover, repair, read its log ``catalog``
the versioned tree of names; below it ``history``, ``clone`` and ``query`` ``access``
principals, grants and rules; registered clients ``iceberg``       Iceberg's tables and views:
metadata files, commits ``transfer``      import of path-based Delta tables, and export back to one
``coordination``  references, leases, ids and tasks for other systems ``gc``            what may be
removed, and its removal ``adapters``      the ports on DynamoDB, S3 and files ``api``
HTTP: the APIs (``v1``, ``unity``, ``iceberg``, tokens), authentication, requests and answers
"""
