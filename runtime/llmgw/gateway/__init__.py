"""The data plane: carries requests of clients to engines and their answers back."""
