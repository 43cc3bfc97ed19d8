"""The programs that other tests of capture run, as cases: each world gets a module of its own."""

import copy
import functools
from pathlib import Path

import torch

from capture.likeness import FILE
from capture.perturbing import Case

FOLDER = Path(__file__).parent
X = torch.arange(6.0).reshape(2, 3)


@functools.cache
def compile_module(name):
    return compile((FOLDER / f"{name}.py").read_text(), FILE, "exec")


def load_module(name):
    """Run a module of this folder in a new namespace."""
    space = {"__name__": "programs", "__file__": str(FOLDER / f"{name}.py")}
    exec(compile_module(name), space)
    return space


class FromModule(Case):
    """A function of a module, and what makes its arguments: find(space) gives both."""

    def __init__(self, module, name, find):
        super().__init__(f"{module}: {name}", f"# {name} in {module}.py\n")
        self.module, self.find = module, find

    def load(self):
        space = load_module(self.module)
        space["program"], space["make"] = self.find(space)
        return space


def find_captured(name, space):
    fn, calls, _ = space["CAPTURED"][name]
    return fn, lambda: copy.deepcopy(list(calls[0]))


def find_state(name, space):
    return space[name], space["make_arguments"]


def find_break(name, space):
    fn, _, make = space["programs"][name]
    return fn, lambda: [X.clone(), *make()]


class Expression(Case):
    """A row of test_contracts.CALLS."""

    def __init__(self, expression, make, modules):
        text = f"def program(x, a):\n    y = x + 1\n    value = {expression}\n    return y, value\n"
        super().__init__(f"test_contracts: {expression}", text)
        self.make, self.modules = make, modules

    def load(self):
        space = {**super().load(), **self.modules}
        exec(self.code, space)
        space["make"] = lambda: [torch.ones(2), self.make()]
        return space


def list_cases():
    """All programs of the corpus."""
    cases = [
        FromModule("test_programs", name, functools.partial(find_captured, name))
        for name in load_module("test_programs")["CAPTURED"]
    ]
    state = load_module("programs/state")
    cases += [
        FromModule("programs/state", name, functools.partial(find_state, name))
        for name, value in state.items()
        if getattr(getattr(value, "__code__", None), "co_varnames", ())[:2] == ("x", "w")
    ]
    for module in ("test_break_documents", "test_break_generators", "test_break_places"):
        cases += [
            FromModule(module, name, functools.partial(find_break, name)) for name in load_module(module)["programs"]
        ]
    contracts = load_module("test_contracts")
    return cases + [Expression(expression, make, contracts["SPACE"]) for expression, make in contracts["CALLS"]]
