"""Common parts of all HTTP functions: from the gateway's event to a typed request, and from an
answer or error to JSON."""
