"""Expectations of tables: which rows a commit or a promotion may show (I29)."""
