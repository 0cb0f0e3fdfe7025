"""The page of Python names: signature, docstring and example of each, as the code has them."""

import inspect
import re
from collections.abc import Iterator
from typing import Any

from numpy.typing import ArrayLike

import bayestriplet

HEAD = """# Python names

Every public name of `import bayestriplet as bt`, from its docstring. Shapes have these letters: B items of a
batch, K classes, D numbers of an embedding, S positives of an anchor, N items, P points or classes at work.
Every example is run as a test. [From Python](../python.md) and [A loss for your loop](../library.md) show how
they work together. Examples begin with these lines:

```python
{preamble}
```
"""
PREAMBLE = """\
import torch
import bayestriplet as bt

embeddings = torch.tensor([[0.0, 1.0], [0.0, 3.0], [4.0, 0.0], [6.0, 0.0]])  # (B, D)
labels = torch.tensor([0, 0, 1, 1])  # (B,)
posterior = bt.ClassPosterior(num_classes=3, dim=2)
posterior.update(embeddings, labels)
"""
OF_A_RUN = """\
run = bt.Run("runs/first")  # trained on the folder photos: digits 0 to 2, 20 images of each
index = bt.Index.open("runs/first")  # of these images
"""


def members_of(kind: type) -> Iterator[tuple[str, Any]]:
    """Yield the public methods and properties of a class that this project defines."""
    for name in sorted(dir(kind)):
        home = next(base for base in kind.__mro__ if name in vars(base)) if hasattr(kind, name) else kind
        value = vars(home).get(name)
        value = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        is_own = home.__module__.startswith("bayestriplet.") and not name.startswith("_")
        if is_own and (inspect.isfunction(value) or isinstance(value, property)):
            yield name, value


def public_names() -> Iterator[tuple[str, Any]]:
    """Yield every public name with what it stands for, members of classes behind their class."""
    for name in bayestriplet.__all__:
        value = getattr(bayestriplet, name)
        yield name, value
        if inspect.isclass(value):
            yield from ((f"{name}.{member}", one) for member, one in members_of(value))


def docstring_of(value: Any) -> str:
    """Return the docstring, or that of the method which it overrides."""
    return inspect.getdoc(value) or ""


def write_names() -> str:
    """Return the page."""
    parts = [HEAD.format(preamble=PREAMBLE + OF_A_RUN)]
    for name, value in public_names():
        level = "###" if "." in name else "##"
        parts.append(f"{level} {name} {{ #{name} }}\n")
        if callable(value):
            parts.append(f"```python\n{_signature(name, value)}\n```\n")
        parts.append(as_markdown(docstring_of(value)) + "\n")
    return "\n".join(parts)


def _signature(name: str, value: Any) -> str:
    if inspect.isclass(value) and issubclass(value, Exception):
        return f"class bt.{name}"
    signature = inspect.signature(value)
    shown = [one for one in signature.parameters.values() if one.name not in ("self", "cls")]
    text = str(signature.replace(parameters=shown))
    for kind, short in ((ArrayLike | None, "ArrayLike | None"), (ArrayLike, "ArrayLike")):
        text = text.replace(inspect.formatannotation(kind), short)
    text = re.sub(r"<function ignore at 0x[0-9a-f]+>", "ignore", text)
    text = re.sub(r"\b(?:bayestriplet|numpy|collections|pathlib|typing|torch)\.(?:[a-z_]+\.)*", "", text)
    text = re.sub(r"ndarray\[tuple\[Any, \.\.\.\], dtype\[(\w+)\]\]", r"NDArray[\1]", text)
    line = f"bt.{name}{text}"
    return line if len(line) <= 100 else _broken(f"bt.{name}", shown, text)


def _broken(head: str, parameters: list[inspect.Parameter], text: str) -> str:
    """Return a signature with one parameter per line."""
    depth, start, pieces = 0, 1, []
    end = next(i for i in range(len(text)) if _closes(text, i))
    for i in range(1, end):
        depth += (text[i] in "([{") - (text[i] in ")]}")
        if text[i] == "," and depth == 0:
            pieces.append(text[start:i].strip())
            start = i + 1
    pieces.append(text[start:end].strip())
    body = "".join(f"    {piece},\n" for piece in pieces if piece)
    return f"{head}(\n{body}{text[end:]}" if parameters else head + text


def _closes(text: str, end: int) -> bool:
    return text[end] == ")" and text[: end + 1].count("(") == text[: end + 1].count(")")


def as_markdown(text: str) -> str:
    """Return a docstring as Markdown: arguments as a list, examples as code, roles as plain code."""
    text = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", text)
    text = text.replace("``", "`")
    text = re.sub(r"\s*#\s*doctest:[^\n]*", "", text)
    text = re.sub(r"\bdocs/(\w+)\.md", r"[\1](../\1.md)", text)
    lines, out = text.splitlines(), []
    in_example = in_arguments = False
    for line in lines:
        if line.startswith(">>>") and not in_example:
            out += ["", "```pycon"]
            in_example = True
        elif in_example and not line.strip():
            out.append("```")
            in_example = False
        if re.fullmatch(r"(Args|Returns|Attributes|Raises):", line):
            out += [f"**{line}**", ""]
            in_arguments = True
            continue
        in_arguments = in_arguments and (line.startswith("    ") or not line.strip())
        if in_arguments and (found := re.match(r"    ([*\w]+): (.*)", line)):
            line = f"- `{found.group(1)}`: {found.group(2)}"
        elif in_arguments:
            line = "  " + line.strip()
        out.append(line)
    return "\n".join([*out, "```"] if in_example else out)
