"""A federation for tests."""
