"""Calls: every way in which Python code commonly calls Python code.

What it asks of a loop: binding arguments and making frames. The bodies are as small as they can be.
"""

from functools import partial


def fib(n):
    if n < 2:
        return n
    return fib(n - 1) + fib(n - 2)


def tak(x, y, z):
    if y >= x:
        return z
    return tak(tak(x - 1, y, z), tak(y - 1, z, x), tak(z - 1, x, y))


def is_even(n):
    return True if n == 0 else is_odd(n - 1)


def is_odd(n):
    return False if n == 0 else is_even(n - 1)


def return_nothing():
    pass


def add(a, b):
    return a + b


def scale(value, factor=3, offset=1):
    return value * factor + offset


def clamp(value, *, low=0, high=100):
    if value < low:
        return low
    return high if value > high else value


def total(*numbers):
    result = 0
    for number in numbers:
        result += number
    return result


def count_options(first, *rest, verbose=False, **options):
    return first + len(rest) + len(options) + (1 if verbose else 0)


def call_functions(rounds):
    result = 0
    for i in range(rounds):
        return_nothing()
        result = add(result, i)
        result = add(result, add(i, 1))
        result += scale(i)
        result += scale(i, 2)
        result += scale(i, 2, 5)
    return result


def call_with_keywords(rounds):
    result = 0
    options = {"low": 10, "high": 50}
    for i in range(rounds):
        result += scale(i, offset=4)
        result += scale(offset=2, factor=5, value=i)
        result += clamp(i, high=150)
        result += clamp(i, **options)
    return result


def call_with_stars(rounds):
    result = 0
    numbers = (1, 2, 3)
    for i in range(rounds):
        result += total()
        result += total(i, 1, 2)
        result += total(i, *numbers)
        result += count_options(*numbers, verbose=True, depth=i)
    return result


class Counter:
    """Something to call methods of."""

    def __init__(self, start=0, step=1):
        self.value = start
        self.step = step

    @classmethod
    def make_pair(cls, start):
        return cls(start), cls(start, step=2)

    @staticmethod
    def halve(value):
        return value // 2

    @property
    def doubled(self):
        return self.value * 2

    def advance(self):
        self.value += self.step
        return self

    def advance_by(self, amount, times=1):
        self.value += amount * times
        return self.value

    def __call__(self, amount):
        self.value += amount
        return self.value

    def __add__(self, other):
        return Counter(self.value + other.value)

    def __len__(self):
        return 5

    def __getitem__(self, index):
        return self.value + index


class Bounded(Counter):
    """A counter that starts again at its limit."""

    def __init__(self, limit, **options):
        super().__init__(**options)
        self.limit = limit

    def advance(self):
        super().advance()
        if self.value >= self.limit:
            self.value -= self.limit
        return self


def call_methods(rounds):
    counter = Counter()
    bounded = Bounded(7, start=3, step=2)
    advance_by = counter.advance_by
    result = 0
    for i in range(rounds):
        result += counter.advance().advance().value
        result += bounded.advance().value
        result += counter.advance_by(2)
        result += counter.advance_by(1, times=i)
        result += advance_by(i, 2)
        result += counter(3)
        result %= 1000003
    return result


def call_through_types(rounds):
    """Call by way of the type's slots and descriptors, where C code stands in between."""
    result = 0
    for i in range(rounds):
        one, two = Counter.make_pair(i)
        both = one + two.advance()
        result += both.doubled + len(both) + both[i] + Counter.halve(i)
    return result


def make_adder(amount):
    def add_amount(value):
        return value + amount

    return add_amount


def make_tally():
    count = 0

    def tally(step=1):
        nonlocal count
        count += step
        return count

    return tally


def compose(*functions):
    def composed(value):
        for function in functions:
            value = function(value)
        return value

    return composed


def call_closures(rounds):
    tally = make_tally()
    chain = compose(make_adder(2), lambda value: value * 3, make_adder(-1))
    result = 0
    for i in range(rounds):
        adder = make_adder(i)
        result += adder(1) + tally() + tally(2) + chain(i)
    return result


def call_from_c(rounds):
    add_ten = partial(add, 10)
    numbers = [(i * 7919) % 1009 for i in range(rounds)]
    ordered = sorted(numbers, key=lambda number: (number % 10, number))
    smallest = min(numbers, key=lambda number: -number)
    return sum(map(add_ten, ordered)) + sum(filter(is_small, ordered)) + smallest + ordered[rounds // 2]


def is_small(number):
    return number < 500


def recurse():
    return fib(18), tak(12, 8, 4), is_even(200)


# Each with its number of rounds: plain calls, methods and recursion, which programs are full of, take the most time.
PARTS = {
    call_functions: 400,
    call_with_keywords: 200,
    call_with_stars: 100,
    call_methods: 300,
    call_through_types: 80,
    call_closures: 200,
    call_from_c: 200,
}


def run(n):
    """Make all the calls `n` times and return the sum of the results of each kind."""
    sums = dict.fromkeys(PARTS, 0)
    for _ in range(n):
        for part, rounds in PARTS.items():
            sums[part] += part(rounds)
        recursed = recurse()
        if recursed != (2584, 5, True):
            raise AssertionError(f"recursion gives {recursed}")
    return tuple(sums.values())


# In the order of PARTS. A loop without any call gives the same numbers.
ONE_ROUND = (721400, 187855, 11300, 717196, 24560, 201000, 129612)
EXPECTED = {1: ONE_ROUND, 3: tuple(3 * part for part in ONE_ROUND)}
