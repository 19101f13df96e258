"""What is decided without files and requests."""
