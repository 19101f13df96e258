"""Pure: principals, grants, and the rules that decide."""
