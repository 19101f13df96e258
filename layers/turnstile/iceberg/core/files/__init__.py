"""Pure: the Avro files of a table: manifest lists, manifests, and the content files they name."""
