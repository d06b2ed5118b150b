"""What operators say of nodes and models: kept before it takes effect, known to the next leader."""
