"""The paper's experiments: how to repeat each, and the numbers that it reports."""
