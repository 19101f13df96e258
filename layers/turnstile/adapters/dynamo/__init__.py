"""The two tables on DynamoDB: ``refs`` is the mutable one, ``objs`` the write-once one. ``models``
is the only serialisation, ``calls`` sends requests and classifies faults, ``transport`` replaces
the HTTP part of botocore's client.
"""
