"""DeltaBlue: an incremental solver of one-way constraints (after Freeman-Benson, Maloney and Borning, 1990).

A variable is computed by at most one constraint, its *determining* one. Constraints have strengths; the *walkabout
strength* of a variable is that of the weakest constraint upstream that could be given up to free it. Adding one
overrides a weaker one, which then looks for another way to hold; removing one lets those that do not hold try again.
A *plan* is an order in which the constraints downstream of an input are executed each time that the input changes.

What it asks of a loop: class hierarchies with overridden methods, `super()`, lists as work queues, identity tests,
comprehensions.
"""

from itertools import pairwise
from operator import attrgetter


class Strength:
    """How much a constraint wants to hold. A lower rank is stronger."""

    def __init__(self, rank, name):
        self.rank = rank
        self.name = name

    def __repr__(self):
        return f"<{self.name}>"

    def is_stronger_than(self, other):
        return self.rank < other.rank

    def is_weaker_than(self, other):
        return self.rank > other.rank

    @staticmethod
    def pick_weaker(a, b):
        return a if a.is_weaker_than(b) else b


REQUIRED = Strength(0, "required")
STRONG_PREFERRED = Strength(1, "strong preferred")
PREFERRED = Strength(2, "preferred")
STRONG_DEFAULT = Strength(3, "strong default")
NORMAL = Strength(4, "normal")
WEAK_DEFAULT = Strength(5, "weak default")
WEAKEST = Strength(6, "weakest")


class ConstraintError(Exception):
    """A required constraint cannot hold, or constraints form a cycle."""


class Variable:
    """A value, the constraints on it, and what the solver knows about how it is computed."""

    def __init__(self, name, value=0):
        self.name = name
        self.value = value
        self.constraints = []
        self.determined_by = None
        self.mark = 0
        self.walk_strength = WEAKEST
        self.stays = True  # the value is the same for every execution of a plan

    def __repr__(self):
        return f"<{self.name}={self.value} {self.walk_strength}>"

    def attach(self, constraint):
        self.constraints.append(constraint)

    def detach(self, constraint):
        self.constraints.remove(constraint)
        if self.determined_by is constraint:
            self.determined_by = None

    def forget_determination(self):
        self.determined_by = None
        self.walk_strength = WEAKEST
        self.stays = True

    def is_known(self, mark):
        """Return whether a plan made under `mark` can use the value."""
        return self.mark == mark or self.stays or self.determined_by is None

    def consumers(self):
        """Return the satisfied constraints that read this variable."""
        return [c for c in self.constraints if c is not self.determined_by and c.is_satisfied()]


class Constraint:
    """The part that all constraints share: being added, removed and satisfied."""

    is_input = False  # whether the value comes from outside, such as from a user who edits it

    def __init__(self, strength):
        self.strength = strength

    def __repr__(self):
        return f"<{type(self).__name__} {self.strength}>"

    def output(self):
        raise NotImplementedError

    def variables(self):
        raise NotImplementedError

    def inputs(self):
        raise NotImplementedError

    def is_satisfied(self):
        raise NotImplementedError

    def mark_unsatisfied(self):
        raise NotImplementedError

    def choose_method(self, mark):
        """Decide whether, and in which direction, this constraint can hold; variables with `mark` are taken."""
        raise NotImplementedError

    def recalculate(self):
        """Derive the walkabout strength and the constancy of the output, and its value if that is constant."""
        raise NotImplementedError

    def execute(self):
        raise NotImplementedError

    def add_to(self, planner):
        for variable in self.variables():
            variable.attach(self)
        self.mark_unsatisfied()
        planner.add(self)
        return self

    def remove_from(self, planner):
        if self.is_satisfied():
            planner.remove(self)
        else:
            self.detach()

    def detach(self):
        for variable in self.variables():
            variable.detach(self)

    def inputs_known(self, mark):
        return all(v.is_known(mark) for v in self.inputs())

    def mark_inputs(self, mark):
        for variable in self.inputs():
            variable.mark = mark

    def satisfy(self, mark, planner):
        """Try to make this constraint hold and return the one that it overrode, if any."""
        self.choose_method(mark)
        if not self.is_satisfied():
            if self.strength is REQUIRED:
                raise ConstraintError(f"cannot satisfy required {self!r}")
            return None
        self.mark_inputs(mark)
        output = self.output()
        overridden = output.determined_by
        if overridden is not None:
            overridden.mark_unsatisfied()
        output.determined_by = self
        if not planner.propagate_addition(self, mark):
            raise ConstraintError(f"{self!r} closes a cycle")
        output.mark = mark
        return overridden


class UnaryConstraint(Constraint):
    """A constraint on one variable, which it computes."""

    def __init__(self, variable, strength):
        super().__init__(strength)
        self.variable = variable
        self.satisfied = False

    def output(self):
        return self.variable

    def variables(self):
        return (self.variable,)

    def inputs(self):
        return ()

    def is_satisfied(self):
        return self.satisfied

    def mark_unsatisfied(self):
        self.satisfied = False

    def choose_method(self, mark):
        variable = self.variable
        self.satisfied = variable.mark != mark and self.strength.is_stronger_than(variable.walk_strength)

    def recalculate(self):
        variable = self.variable
        variable.walk_strength = self.strength
        variable.stays = not self.is_input
        if variable.stays:
            self.execute()

    def execute(self):
        """Do nothing: the value is where it should be already."""


class StayConstraint(UnaryConstraint):
    """The variable should keep its value."""


class EditConstraint(UnaryConstraint):
    """The variable is changed from outside."""

    is_input = True


FORWARD, BACKWARD = 1, -1


class BinaryConstraint(Constraint):
    """A constraint between two variables, either of which it can compute from the other."""

    def __init__(self, first, second, strength):
        super().__init__(strength)
        self.first = first
        self.second = second
        self.direction = None  # or FORWARD, from first to second, or BACKWARD

    def source(self):
        return self.first if self.direction == FORWARD else self.second

    def output(self):
        return self.second if self.direction == FORWARD else self.first

    def variables(self):
        return (self.first, self.second)

    def inputs(self):
        return (self.source(),)

    def is_satisfied(self):
        return self.direction is not None

    def mark_unsatisfied(self):
        self.direction = None

    def choose_method(self, mark):
        first, second = self.first, self.second
        if first.mark == mark:
            target = None if second.mark == mark else second
        elif second.mark == mark:
            target = first
        else:
            target = first if first.walk_strength.is_weaker_than(second.walk_strength) else second
        if target is None or not self.strength.is_stronger_than(target.walk_strength):
            self.direction = None
        else:
            self.direction = FORWARD if target is second else BACKWARD

    def recalculate(self):
        source, output = self.source(), self.output()
        output.walk_strength = Strength.pick_weaker(self.strength, source.walk_strength)
        output.stays = self.is_constant()
        if output.stays:
            self.execute()

    def is_constant(self):
        return self.source().stays


class EqualityConstraint(BinaryConstraint):
    """first == second"""

    def execute(self):
        self.output().value = self.source().value


class ScaleConstraint(BinaryConstraint):
    """second == first * scale + offset; scale and offset are only read."""

    def __init__(self, first, scale, offset, second, strength):
        super().__init__(first, second, strength)
        self.scale = scale
        self.offset = offset

    def variables(self):
        return (*super().variables(), self.scale, self.offset)

    def inputs(self):
        return (self.source(), self.scale, self.offset)

    def is_constant(self):
        return super().is_constant() and self.scale.stays and self.offset.stays

    def execute(self):
        if self.direction == FORWARD:
            self.second.value = self.first.value * self.scale.value + self.offset.value
        else:
            self.first.value = (self.second.value - self.offset.value) // self.scale.value


class Plan:
    """Constraints in an order in which each one's inputs are computed before it."""

    def __init__(self):
        self.steps = []

    def __len__(self):
        return len(self.steps)

    def append(self, constraint):
        self.steps.append(constraint)

    def execute(self):
        for constraint in self.steps:
            constraint.execute()


class Planner:
    """The solver: keeps the constraints satisfied, stronger ones first, while they come and go."""

    def __init__(self):
        self.last_mark = 0

    def new_mark(self):
        self.last_mark += 1
        return self.last_mark

    def add(self, constraint):
        mark = self.new_mark()
        overridden = constraint.satisfy(mark, self)
        while overridden is not None:
            overridden = overridden.satisfy(mark, self)

    def remove(self, constraint):
        output = constraint.output()
        constraint.mark_unsatisfied()
        constraint.detach()
        for candidate in self.propagate_removal(output):
            self.add(candidate)

    def make_plan(self, sources):
        mark = self.new_mark()
        plan = Plan()
        todo = list(sources)
        while todo:
            constraint = todo.pop()
            output = constraint.output()
            if output.mark != mark and constraint.inputs_known(mark):
                plan.append(constraint)
                output.mark = mark
                todo.extend(output.consumers())
        return plan

    def plan_for(self, constraints):
        return self.make_plan(c for c in constraints if c.is_input and c.is_satisfied())

    def propagate_addition(self, constraint, mark):
        """Recalculate all that is downstream of `constraint`; return False, with it removed, if that is a cycle."""
        todo = [constraint]
        while todo:
            downstream = todo.pop()
            output = downstream.output()
            if output.mark == mark:
                self.remove(constraint)
                return False
            downstream.recalculate()
            todo.extend(output.consumers())
        return True

    def propagate_removal(self, output):
        """Recalculate all that is downstream of `output`, now undetermined; return what may hold, strongest first."""
        output.forget_determination()
        unsatisfied = []
        todo = [output]
        while todo:
            variable = todo.pop()
            unsatisfied.extend(c for c in variable.constraints if not c.is_satisfied())
            for constraint in variable.consumers():
                constraint.recalculate()
                todo.append(constraint.output())
        unsatisfied.sort(key=attrgetter("strength.rank"))
        return unsatisfied


def check(value, wanted, what):
    if value != wanted:
        raise AssertionError(f"{what} is {value}, not {wanted}")


def solve_chain(length):
    """Edit one end of a long chain of equalities: the worst case for the length of a plan."""
    planner = Planner()
    variables = [Variable(f"v{i}") for i in range(length + 1)]
    for left, right in pairwise(variables):
        EqualityConstraint(left, right, REQUIRED).add_to(planner)
    head, tail = variables[0], variables[-1]
    StayConstraint(tail, STRONG_DEFAULT).add_to(planner)
    edit = EditConstraint(head, PREFERRED).add_to(planner)
    plan = planner.plan_for([edit])
    check(len(plan), length + 1, "the length of the plan")
    total = 0
    for value in range(100):
        head.value = value
        plan.execute()
        check(tail.value, value, "the chain's end")
        total += tail.value
    edit.remove_from(planner)
    return total


def edit_variable(planner, variable, value):
    edit = EditConstraint(variable, PREFERRED).add_to(planner)
    plan = planner.plan_for([edit])
    for _ in range(10):
        variable.value = value
        plan.execute()
    edit.remove_from(planner)
    return len(plan)


def solve_projection(count):
    """Map `count` points by a shared scale and offset; edit a point on either side, then the mapping itself."""
    planner = Planner()
    scale, offset = Variable("scale", 10), Variable("offset", 1000)
    sources, images = [], []
    for i in range(count):
        source, image = Variable(f"source{i}", i), Variable(f"image{i}", i)
        sources.append(source)
        images.append(image)
        StayConstraint(source, NORMAL).add_to(planner)
        ScaleConstraint(source, scale, offset, image, REQUIRED).add_to(planner)
    planned = edit_variable(planner, sources[-1], 17)
    check(images[-1].value, 1170, "the edited point's image")
    planned += edit_variable(planner, images[-1], 1050)
    check(sources[-1].value, 5, "the edited image's source")
    planned += edit_variable(planner, scale, 5)
    check([v.value for v in images[:-1]], [i * 5 + 1000 for i in range(count - 1)], "the scaled images")
    planned += edit_variable(planner, offset, 2000)
    check([v.value for v in images[:-1]], [i * 5 + 2000 for i in range(count - 1)], "the moved images")
    return planned + sum(v.value for v in images)


def run(n):
    """Solve a chain and a projection of 100 variables each, `n` times; return the sum of values and plan lengths."""
    return sum(solve_chain(100) + solve_projection(100) for _ in range(n))


# By hand, for one round: the chain's end takes the values 0 to 99; plans of 2, 2, 101 and 101 steps;
# the images of 0 to 98, and of 5 for the point that was edited, under x * 5 + 2000.
ONE_ROUND = sum(range(100)) + (2 + 2 + 101 + 101) + sum(x * 5 + 2000 for x in (*range(99), 5))
EXPECTED = {1: ONE_ROUND, 3: 3 * ONE_ROUND}
