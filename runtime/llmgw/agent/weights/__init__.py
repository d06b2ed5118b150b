"""Model files on this node: from a source in the catalog to a path that an engine can open."""
