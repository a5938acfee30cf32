"""The libraries of this package, in a wheel."""
