"""Recovery of a transaction that lost: moved on top of the winners, or some statements run again."""
