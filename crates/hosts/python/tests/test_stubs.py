"""The stubs declare the names and parameters of the code."""

import ast
import inspect
import pathlib

import pytest
import quorate
import quorate.aio

PACKAGE = pathlib.Path(quorate.__file__).parent


def declared(name):
    """The functions and classes of a stub."""
    tree = ast.parse((PACKAGE / name).read_text())
    return {node.name: node for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}


def methods(node):
    return {item.name: item for item in node.body if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef))}


def parameters(node):
    told = node.args
    names = [argument.arg for argument in (*told.posonlyargs, *told.args, *told.kwonlyargs)]
    return [name for name in names if name != "self"]


def accepts_any_name(signature):
    kinds = {parameter.kind for parameter in signature.parameters.values()}
    return inspect.Parameter.VAR_KEYWORD in kinds


@pytest.mark.parametrize(("stub", "module"), [("__init__.pyi", quorate), ("aio.pyi", quorate.aio)])
def test_stubs_and_code_declare_the_same(stub, module):
    nodes = declared(stub)
    classes = [name for name in module.__all__ if inspect.isclass(getattr(module, name))]
    for name in classes:
        kind = getattr(module, name)
        if issubclass(kind, Exception):
            continue
        told = methods(nodes[name])
        there = {method for method in vars_of(kind) if method[0] != "_"}
        assert {method for method in told if method[0] != "_"} | fields(nodes[name]) == there, name
        for method, node in told.items():
            found = inspect.getattr_static(kind, method, None)
            if method[0] == "_" or isinstance(found, property) or inspect.isdatadescriptor(found):
                continue
            function = getattr(kind, method)
            signature = inspect.signature(function)
            names = [name for name in signature.parameters if name != "self"]
            if accepts_any_name(signature):
                assert set(names) - {"options", "named"} <= set(parameters(node)) | {"arguments"}, f"{name}.{method}"
            else:
                assert parameters(node) == names, f"{name}.{method}"
            if kind.__module__ == "quorate.aio":
                is_told = isinstance(node, ast.AsyncFunctionDef)
                assert is_told == inspect.iscoroutinefunction(function), f"{name}.{method}"


def vars_of(kind):
    names = set()
    for base in kind.__mro__[:-1]:
        names |= set(vars(base))
    return names


def fields(node):
    return {item.target.id for item in node.body if isinstance(item, ast.AnnAssign)}


def test_stubs_declare_every_name_that_is_exported():
    text = (PACKAGE / "__init__.pyi").read_text()
    for name in quorate.__all__:
        assert f"class {name}" in text or f"def {name}(" in text or f" as {name}\n" in text or f"{name}: " in text, name
    assert (PACKAGE / "py.typed").exists()
