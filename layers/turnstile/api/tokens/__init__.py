"""The token endpoint, and the clients that get tokens there (docs/security.md)."""
