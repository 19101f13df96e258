"""What the HTTP functions share: from the gateway's event to a typed request, and from an answer or error to JSON.

A function's ``app.py`` is then: parse, call one operation, render.
"""
