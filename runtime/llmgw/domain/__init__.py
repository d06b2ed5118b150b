"""Values and rules of the product: frozen, free of I/O, standard library only."""
