"""@NAME@: a Flower app that runs fedfor's algorithms."""
