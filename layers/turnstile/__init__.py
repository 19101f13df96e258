"""Turnstile's domain package, deployed as one Lambda layer. It knows nothing of Lambda, Chalice or HTTP.

``core``      pure: values, the decision, the changes as data. No boto3, no clock, no random numbers.
``ports``     what the core's users need of the world: refs, objs, log storage, clock.
``services``  one use case a module: ratify, publish, load, sweep, collect, the catalog.
``adapters``  DynamoDB, S3 and file implementations of the ports.
"""
