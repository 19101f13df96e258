"""Who asks: from a request's bearer token to a ``Principal`` (I12).

Three kinds of token: static ones, tokens of an OIDC issuer, and Turnstile's own access tokens. ``settings`` reads what a
deployment accepts, ``bearer`` judges a request, ``verdict`` is how the gateway's authorizer passes a judgement on. What
needs PyJWT is behind ``signed`` and imported when a token of that kind comes.
"""
