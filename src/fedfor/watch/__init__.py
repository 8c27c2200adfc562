"""Follow runs while they train: a page on this machine, and a view for the terminal."""
