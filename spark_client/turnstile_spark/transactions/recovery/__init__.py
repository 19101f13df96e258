"""Recovery of a transaction that lost: moved on top of the winners, or statements run again."""
