import ast
from pathlib import Path

import splitter

PACKAGE = Path(splitter.__path__[0])
ALLOWED = {
    "array",
    "collections.abc",
    "dataclasses",
    "hashlib",
    "itertools",
    "secrets",
    "struct",
    "typing",
}


def imported(tree: ast.AST) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.add("." * node.level + (node.module or ""))
    return names


def trees() -> dict[str, ast.Module]:
    return {path.name: ast.parse(path.read_text("utf-8")) for path in PACKAGE.glob("**/*.py")}


def test_splitter_imports_only_itself_and_a_few_pure_modules() -> None:
    for name, tree in trees().items():
        outside = {module for module in imported(tree) if not module.startswith("splitter.")}
        assert outside <= ALLOWED, name


def test_only_the_proof_asks_the_operating_system_for_randomness() -> None:
    asking = {name for name, tree in trees().items() if "secrets" in imported(tree)}
    assert asking == {"proof.py"}


def test_splitter_has_no_float_and_no_true_division() -> None:
    for name, tree in trees().items():
        for node in ast.walk(tree):
            assert not isinstance(node, ast.Div), name
            assert not (isinstance(node, ast.Constant) and isinstance(node.value, float)), name
            assert not (isinstance(node, ast.Name) and node.id in ("float", "Decimal")), name
