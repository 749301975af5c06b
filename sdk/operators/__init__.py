"""What a topology of the sdk is made of: the computations that run transforms."""
