"""Names from elsewhere, made fit for a terminal."""

import unicodedata


def clean(text: str) -> str:
    """Without what would steer a terminal: line breaks, escapes, changes of direction."""
    return "".join(
        c if c.isprintable() else "" if unicodedata.category(c) == "Cf" else "�" for c in text
    )
