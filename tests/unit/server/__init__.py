"""Parts of the server that need no process of their own."""
