"""Contains the libraries of this package in a wheel."""
