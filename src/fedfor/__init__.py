"""Federated learning that converges on non-IID clients and keeps no state on them."""

__version__ = "0.1.0"
