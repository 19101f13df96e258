"""Pure: conditional writes as data, keys of rows and objs, names, locations, errors."""
