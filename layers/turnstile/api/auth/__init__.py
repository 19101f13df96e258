"""Authentication: from a bearer token to a ``Principal`` (I12).

Three kinds of token: static ones, tokens of an OIDC issuer, and Turnstile's own access tokens. ``settings`` reads what a
deployment accepts, ``bearer`` judges a request. What needs PyJWT is imported when a token of that kind comes.
"""
