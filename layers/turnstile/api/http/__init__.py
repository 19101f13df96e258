"""What all HTTP functions share: from the gateway's event to a typed request, and from an answer or error to JSON."""
