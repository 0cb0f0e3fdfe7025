import ast
import subprocess
import sys
from pathlib import Path

import pytest

import bayestriplet

SOURCE = Path(bayestriplet.__file__).parent

# Imports go only downwards in this list; parts on one line do not import each other.
LAYERS = [
    {"errors"},
    {"atomic", "checks"},
    {"config"},
    {"posterior"},
    {"triplets", "data", "model"},
    {"evaluation"},
    {"training", "retrieval"},
    {"service"},
    {"cli"},
]
HOME = {  # third-party libraries with a single place; FAISS is where neighbours are looked for
    "pytorch_metric_learning": "triplets",
    "faiss": ("evaluation", "retrieval"),
    "onnxruntime": "retrieval",
    "onnxscript": "model",
    "lancedb": "retrieval",
    "pymilvus": "retrieval",
    "monai": "model",
    "PIL": "data",
    "sklearn": "data",
    "lightning": "training",
    "matplotlib": "evaluation",
    "umap": "evaluation",
    "fastapi": "service",
    "starlette": "service",
    "uvicorn": "service",
    "plotly": "service",
    "typer": "cli",
    "pickle": "data",
}


def imports(path):
    """Every module imported anywhere in a file, also inside functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in {path}"
            yield node.module


def part(module):
    return module.split(".")[1]


def modules():
    return [path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py"]


def test_imports_go_only_downwards():
    height = {name: level for level, names in enumerate(LAYERS) for name in names}
    for path in modules():
        own = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        for module in imports(path):
            if module.startswith("bayestriplet."):
                assert part(module) == own or height[part(module)] < height[own], f"{path} imports {module}"


def test_each_third_party_library_has_one_place():
    for path in modules():
        for module in imports(path):
            home = HOME.get(module.split(".")[0])
            assert home is None or path.relative_to(SOURCE).parts[0] in home, f"{path} imports {module}"


def test_importing_the_package_loads_no_heavy_library():
    heavy = ("torch", "numpy", "faiss", "typer")
    code = f"import sys, bayestriplet; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("part", ["retrieval", "service"])
def test_what_searches_never_loads_torch(part):
    names = sorted(path.stem for path in (SOURCE / part).glob("*.py") if path.stem != "__init__")
    load = "; ".join(f"import bayestriplet.{part}.{name}" for name in names)
    code = f"import sys; {load}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_every_public_name_resolves_and_unknown_ones_do_not():
    for name in bayestriplet.__all__:
        assert getattr(bayestriplet, name).__name__ == name
        assert name in dir(bayestriplet)
    assert not hasattr(bayestriplet, "nonsense")


def test_no_module_is_longer_than_three_hundred_lines():
    assert {path.name: n for path in modules() if (n := len(path.read_text().splitlines())) > 300} == {}
