"""Where generated programs come from: every generator gives cases (perturbing.Case) by seed."""

import random

from capture import break_grammar, family_grammar, grammar, test_generated_shapes
from capture.likeness import FILE
from capture.perturbing import Case


class Generated(Case):
    """A program behind a prelude that is compiled once for all, and what makes its arguments."""

    preludes = {}

    def __init__(self, name, text, prelude, make):
        super().__init__(name, f"{text}\ndef make():\n    return {make}\n")
        self.prelude = prelude

    def load(self):
        if self.code is None:
            self.code = compile(self.text, FILE, "exec")
        code = self.preludes.get(self.prelude)
        if code is None:
            code = self.preludes[self.prelude] = compile(self.prelude, "<prelude>", "exec")
        space = {"__name__": "programs"}
        exec(code, space)
        exec(self.code, space)
        return space

    def with_text(self, text):
        other = Generated(self.name, "", self.prelude, "")
        other.text = text
        return other


def write_state(number):
    """Programs that mix tensor work with Python state."""
    text = grammar.write_program(number)
    plan = grammar.write_plans(number)[0][0]
    return Generated("state", text, grammar.PRELUDE, f"make_arguments({plan})")


def write_break(number):
    """Programs with breaks at random places and depths."""
    text = break_grammar.write(number)[0].removeprefix(break_grammar.PREAMBLE)
    make = f"[torch.randn(2, 3), {number(0, 3)}, Box(torch.randn(2, 3))]"
    return Generated("break", text, break_grammar.PREAMBLE, make)


def write_shape(number):
    """Programs that compute with sizes and numbers."""
    text = test_generated_shapes.write_program(lambda options: options[number(0, len(options) - 1)])
    make = f"[torch.randn({number(1, 6)}, {number(3, 4)}), {number(0, 7)}, {{'n': 1}}]"
    return Generated("shape", text, "import torch", make)


WRITERS = {"family": family_grammar.write, "state": write_state, "break": write_break, "shape": write_shape}
# How often each is drawn: programs of the families are small, those with many breaks cost ten times as much.
SHARES = [*["family"] * 12, "shape", "shape", "break", "state"]


def write(seed):
    """Return the case of a seed."""
    choice = random.Random(seed)
    return WRITERS[SHARES[seed % len(SHARES)]](choice.randint)
