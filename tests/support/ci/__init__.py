"""How CI runs the tests."""
