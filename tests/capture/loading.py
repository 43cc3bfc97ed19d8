"""Programs of tests/capture/programs, in a new module each time, so that every run starts from the same world."""

import types
from pathlib import Path

from capture.world import Picture

FOLDER = Path(__file__).parent / "programs"


class Program:
    """One function of one module."""

    codes = {}

    def __init__(self, module, name):
        self.module = module
        self.name = name

    def __repr__(self):
        return f"{self.module}-{self.name}"

    def load(self):
        return Run(self)

    @classmethod
    def find(cls, module):
        """List the programs of a module: its functions with the parameters x and w."""
        space = cls(module, "").load().space
        return [
            cls(module, name)
            for name, value in space.items()
            if isinstance(value, types.FunctionType) and value.__code__.co_varnames[:2] == ("x", "w")
        ]


class Run:
    """A program in a new module, with new arguments."""

    def __init__(self, program):
        path = FOLDER / f"{program.module}.py"
        code = Program.codes.get(path)
        if code is None:
            code = Program.codes[path] = compile(path.read_text(), str(path), "exec")
        self.space = {"__name__": f"programs.{program.module}", "__file__": str(path)}
        exec(code, self.space)
        self.fn = self.space.get(program.name)
        self.args = self.space["make_arguments"]()

    def look(self, **more):
        """Take a picture of everything that the program can reach."""
        return Picture({"x": self.args[0], "w": self.args[1], "globals": self.space, **more}, [self.space])
