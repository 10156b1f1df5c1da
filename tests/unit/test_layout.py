"""The shape of the house: where code stands, how large it is, what it must not say.

Each rule's failure says how to mend it.
"""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE_ROOTS = ("producers", "consumers", "projections", "api", "infra")
PACKAGES = {
    "producers": {"acta", "log"},
    "consumers": {"recorder", "store"},
    "projections": {"projections"},
    "api": {"api"},
    "infra": {"infra"},
}
MODULE_LINES_MAX = 330
FUNCTION_LINES_MAX = 70


def tracked() -> list[Path]:
    """Files of the repository: tracked, or new and not ignored."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


def modules() -> Iterator[Path]:
    for root in SOURCE_ROOTS:
        yield from sorted((ROOT / root / "chronica").rglob("*.py"))


def test_each_package_stands_in_its_root() -> None:
    for root, packages in PACKAGES.items():
        found = {p.name for p in (ROOT / root / "chronica").iterdir() if p.is_dir()}
        assert found - {"__pycache__"} == packages, f"{root}/chronica holds other packages"


def test_no_root_hides_the_others() -> None:
    hiding = [root for root in SOURCE_ROOTS if (ROOT / root / "chronica/__init__.py").exists()]
    assert not hiding, "chronica is a namespace of several roots: remove that __init__.py"


def test_every_package_is_typed_and_says_what_it_exports() -> None:
    for root, packages in PACKAGES.items():
        for package in packages:
            folder = ROOT / root / "chronica" / package
            assert (folder / "py.typed").is_file(), f"{folder} lacks py.typed"
            exported = importlib.import_module(f"chronica.{package}")
            assert exported.__doc__, f"chronica.{package} has no docstring"


def test_modules_fit_in_the_head() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for path in modules()
        if (lines := len(path.read_text().splitlines())) > MODULE_LINES_MAX
    }
    assert not long, f"split them by noun: {long}"


def test_functions_fit_on_a_screen() -> None:
    long = []
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > FUNCTION_LINES_MAX:
                    long.append(f"{path.relative_to(ROOT)}:{node.name} {lines}")
    assert not long, f"cut them by step: {long}"


def test_only_the_clock_module_asks_the_wall_clock_for_the_time() -> None:
    asks = re.compile(r"datetime\.now\(|datetime\.utcnow\(|\btime\.time\(")
    clocks = {"_clock.py", "_jars.py"}  # the second compares with a file's own time
    asking = [
        str(path.relative_to(ROOT))
        for path in modules()
        if path.name not in clocks and asks.search(path.read_text())
    ]
    assert not asking, f"take a clock as an argument: {asking}"


BANNED = {
    r"\b(TODO|FIXME|XXX|HACK)\b": "finish it, or say in docs/decisions why not",
    r"pytest\.mark\.(skip|xfail)\b": "a test that does not run proves nothing",
    r"https?://[\w.-]+/(simple|maven2|packages)/": "no registry addresses in the repository",
    r"\bDESIGN\b": "the design is docs/ARCHITECTURE.md: name its section",
}


@pytest.mark.parametrize("pattern", BANNED)
def test_nothing_is_left_over(pattern: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in tracked()
        if path.suffix in {".py", ".md", ".toml", ".sql", ".yaml", ""} and path != Path(__file__)
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), start=1)
        if re.search(pattern, line)
    ]
    assert not found, f"{BANNED[pattern]}: {found}"


def test_the_supported_pythons_are_those_the_wheels_exist_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == ">=3.11,<3.15"
    assert sys.version_info[:2] >= (3, 11)


def test_the_lock_names_no_index() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    assert "--hash=sha256:" in lock
    assert not re.search(r"https?://|--(extra-)?index-url", lock), "make lock writes none"
    assert not (ROOT / "uv.lock").exists(), "uv.lock carries registry hosts"


def test_the_changelog_has_an_unreleased_section() -> None:
    assert "\n## Unreleased\n" in (ROOT / "CHANGELOG.md").read_text()
