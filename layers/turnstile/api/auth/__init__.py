"""Authentication: from a bearer token to a ``Principal`` (I12).

Three kinds of token: static ones, tokens of an OIDC issuer, and Turnstile's own access tokens.
``settings`` reads the deployment's settings, ``bearer`` authenticates a request. PyJWT is imported
with the first signed token (``signed``).
"""
