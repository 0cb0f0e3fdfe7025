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
    {"atomic", "checks", "priority"},
    {"methods"},
    {"config"},
    {"posterior"},
    {"triplets", "data", "model"},
    {"runs"},
    {"evaluation"},
    {"training", "retrieval"},
    {"report"},
    {"api"},
    {"service"},
    {"cli"},
]
HOMES = {  # third-party libraries, and the parts that may import them
    "pytorch_metric_learning": {"triplets"},
    "faiss": {"evaluation", "retrieval"},
    "filelock": {"evaluation", "retrieval", "runs"},
    "onnx": {"model"},
    "onnxruntime": {"model"},
    "onnxscript": {"model"},
    "lancedb": {"retrieval"},
    "pyarrow": {"retrieval", "data"},  # the latter reads vectors in .parquet files
    "h5py": {"data"},
    "pymilvus": {"retrieval"},
    "milvus_lite": {"retrieval"},
    "monai": {"model"},
    "PIL": {"data"},
    "sklearn": {"data"},
    "lightning": {"training"},
    "matplotlib": {"report"},
    "umap": {"report"},
    "rich": {"report", "cli"},
    "scipy": {"evaluation"},
    "safetensors": {"runs", "model"},  # the latter reads official weights in this format
    "tomli_w": {"runs"},
    "pydantic": {"config", "service"},
    "fastapi": {"service"},
    "starlette": {"service"},
    "uvicorn": {"service"},
    "python_multipart": {"service"},
    "plotly": {"service"},
    "typer": {"cli"},
    "pickle": {"data"},
    "torch": {"posterior", "triplets", "data", "model", "evaluation", "training"},
    "numpy": {
        "posterior", "triplets", "data", "model", "runs", "evaluation", "training", "retrieval", "report",
        "api", "service", "cli",
    },
}  # fmt: skip
DYNAMIC = {  # the places that import by name, and what they may import
    ("__init__", "import_module"): None,  # the public names, by a table of our own
    ("report/style", "import_module"): {"matplotlib", "umap"},
    ("model/backbone", "import_module"): None,  # a backbone of the user's
}
STANDARD = sys.stdlib_module_names


def imports(path):
    """Every module imported anywhere in a file, also inside functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in {path}"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def modules():
    return [path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py"]


def part_of(path):
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def breaks_layers(own, module):
    """Whether a part may not import a module of the project."""
    height = {name: level for level, names in enumerate(LAYERS) for name in names}
    if not module.startswith("bayestriplet."):
        return False
    other = module.split(".")[1]
    return other in height and other != own and height[other] >= height[own]


def is_away_from_home(own, module):
    """Whether a part may not import a third-party module: it has another home, or none."""
    library = module.split(".")[0]
    return library not in STANDARD and library != "bayestriplet" and own not in HOMES.get(library, set())


def test_every_part_has_its_layer():
    parts = {part_of(path) for path in modules()}
    assert parts == set().union(*LAYERS)


def test_imports_go_only_downwards():
    for path in modules():
        for module in imports(path):
            assert not breaks_layers(part_of(path), module), f"{path} imports {module}"


@pytest.mark.parametrize(
    ("own", "module"),
    [
        ("data", "bayestriplet.runs.folder"),
        ("training", "bayestriplet.retrieval"),
        ("runs", "bayestriplet.api"),
    ],
)
def test_an_import_that_goes_upwards_or_sideways_would_be_found(own, module):
    assert breaks_layers(own, module)


def test_no_two_modules_import_each_other():
    graph = {}
    for path in modules():
        name = "bayestriplet." + ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        graph[name] = {module for module in imports(path) if module.startswith("bayestriplet.")}
    for name, seen in graph.items():
        reached, waiting = set(), list(seen & graph.keys())
        while waiting:
            module = waiting.pop()
            if module not in reached:
                reached.add(module)
                waiting += graph[module] & graph.keys()
        assert name not in reached, f"{name} imports itself, through others"


def test_each_third_party_library_has_one_place():
    for path in modules():
        for module in imports(path):
            assert not is_away_from_home(part_of(path), module), f"{path} imports {module}"


@pytest.mark.parametrize(
    ("own", "module"),
    [("val", "umap"), ("evaluation", "umap"), ("e", "faiss"), ("cli", "scipy.stats"), ("data", "requests")],
)
def test_a_library_away_from_its_home_would_be_found(own, module):
    assert is_away_from_home(own, module)


def test_imports_by_name_are_only_where_they_are_known():
    for path in [SOURCE / "__init__.py", *modules()]:
        where = path.relative_to(SOURCE).with_suffix("").as_posix()
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in ("import_module", "__import__", "find_loader"):
                assert (where, called) in DYNAMIC, f"{where} imports by name"
            if called == "import_drawing":
                library = node.args[0].value.split(".")[0] if isinstance(node.args[0], ast.Constant) else ""
                assert part_of(path) in ("report", "api"), f"{where} draws"
                assert library in ("matplotlib", "umap", ""), f"{where} imports {library}"


def test_importing_the_package_loads_no_heavy_library():
    heavy = ("torch", "numpy", "faiss", "typer")
    code = f"import sys, bayestriplet; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("part", ["runs", "retrieval", "service"])
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
