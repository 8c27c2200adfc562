from pathlib import Path

from .problems import broken, unread


def words_by_line(name: str, path: Path) -> list[list[str]]:
    """Of a list of files with labels, without its empty lines."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except OSError as error:
        raise unread(name, path, error) from error
    except UnicodeDecodeError as error:
        raise broken(name, path, "it is no text") from error
    return [line.split() for line in lines if line.strip()]
