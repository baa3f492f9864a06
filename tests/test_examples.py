"""The examples in docstrings: they run, and everything in the public face has one."""

import doctest
import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest

import fedannot

FACES = ("fedannot", "fedannot.transforms", "fedannot.custom", "fedannot.apps")


def module_names() -> list[str]:
    """All modules that can be imported without running anything."""
    result = pkgutil.walk_packages(fedannot.__path__, "fedannot.")
    return ["fedannot", *(module.name for module in result if not module.name.endswith("__main__"))]


def has_examples(name: str) -> bool:
    """Whether a module's source has any, before it is imported."""
    spec = importlib.util.find_spec(name)
    assert spec is not None
    return spec.origin is not None and ">>> " in Path(spec.origin).read_text(encoding="utf-8")


WITH_EXAMPLES = [name for name in module_names() if has_examples(name)]


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_the_examples_of_a_module_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each as a person would paste it, in an empty folder."""
    module = importlib.import_module(name)
    tests = [test for test in doctest.DocTestFinder(exclude_empty=True).find(module, name) if test.examples]
    assert tests
    for number, test in enumerate(tests):
        folder = tmp_path / str(number)
        folder.mkdir()
        monkeypatch.chdir(folder)
        said: list[str] = []
        failed = doctest.DocTestRunner().run(test, out=said.append).failed
        assert not failed, "".join(said)


def has_example(value: object) -> bool:
    """Whether a docstring, or that of a method of a class, has one."""
    texts = [value.__doc__]
    if inspect.isclass(value):
        texts += [method.__doc__ for method in vars(value).values() if inspect.isfunction(method)]
    return any(isinstance(text, str) and ">>> " in text for text in texts)


@pytest.mark.parametrize("face", FACES)
def test_everything_in_the_public_face_has_an_example(face: str) -> None:
    package = importlib.import_module(face)
    named = {name: getattr(package, name) for name in package.__all__ if not name.startswith("__")}
    # A constant has no docstring of its own.
    named = {name: value for name, value in named.items() if not isinstance(value, str)}
    assert sorted(dir(package)) == sorted(package.__all__)
    without = [
        name
        for name, value in named.items()
        # What a function returns is shown by the function's example.
        if not has_example(value) and not (inspect.isclass(value) and is_returned(value, named))
    ]
    assert without == []


def is_returned(kind: type, named: dict[str, object]) -> bool:
    """Whether one of the named functions returns it."""
    functions = [value for value in named.values() if inspect.isfunction(value)]
    return any(inspect.signature(function).return_annotation in (kind, kind.__name__) for function in functions)
