"""Cohorts over the machines of a Ray cluster."""
