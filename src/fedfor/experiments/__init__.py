"""Experiments: configs, runs in folders that can be resumed, comparisons and their metrics."""
