"""Recovery of a transaction that lost: on top of the winners as it is, or by running its statements again."""
