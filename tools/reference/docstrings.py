"""What stands in docstrings: of classes, and below fields and names, where Python keeps none."""

import ast
import inspect
import itertools
import re
from types import ModuleType


def words_of(part: type) -> str:
    return with_equation(inspect.getdoc(part) or "")


def words_of_name(module: ModuleType, name: str) -> str:
    """Of a name of a module."""
    return with_equation(_below(ast.parse(inspect.getsource(module)).body)[name])


def words_of_fields(part: type) -> dict[str, str]:
    """Of the settings of a class and of those that it comes from."""
    words: dict[str, str] = {}
    for cls in reversed(part.__mro__[:-1]):
        (definition,) = ast.parse(inspect.getsource(cls)).body
        assert isinstance(definition, ast.ClassDef)
        words |= _below(definition.body)
    return words


def with_equation(text: str) -> str:
    """With the paper in a paragraph of its own. A method without an equation is not described."""
    if not re.search(r"^ {4}", text, re.MULTILINE):
        raise ValueError(f"no equation (lines indented by four) in the docstring: {text}")
    return re.sub(r"\s+From: ", "\n\nFrom: ", text)


def in_short(text: str) -> str:
    """Up to the equation, and the paper."""
    paragraphs = text.split("\n\n")
    last = next(i for i, paragraph in enumerate(paragraphs) if paragraph.startswith("    "))
    papers = [p for p in paragraphs[last + 1 :] if p.startswith("From: ")]
    return "\n\n".join([*paragraphs[: last + 1], *papers])


def _below(body: list[ast.stmt]) -> dict[str, str]:
    """The strings that follow assignments, by the name assigned to."""
    words = {}
    for statement, after in itertools.pairwise(body):
        match statement, after:
            case (
                ast.Assign([ast.Name(name)]) | ast.AnnAssign(ast.Name(name)),
                ast.Expr(ast.Constant(str(text))),
            ):
                words[name] = inspect.cleandoc(text)
    return words
