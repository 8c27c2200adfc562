"""Figures for papers: the pictures of the report, one file each."""
