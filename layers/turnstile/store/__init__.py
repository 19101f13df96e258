"""What everything is kept in: rows of refs, objs, log storage. Ports, and the language in which writes are described."""
