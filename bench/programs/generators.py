"""Generators: recursive traversals, pipelines, and generators that are sent values, in one program.

What it asks of a loop: creating, resuming and finishing generators, from `for`, `yield from`, `next` and `send`, and
from C (`sum`); generator expressions; `StopIteration` with a value; `close` in mid-body.
"""

from collections import deque

TREE_DEPTH = 10
STREAM_LENGTH = 1000


class Tree:
    """A node of a binary search tree."""

    def __init__(self, left, value, right):
        self.left = left
        self.value = value
        self.right = right

    def __iter__(self):
        if self.left is not None:
            yield from self.left
        yield self.value
        if self.right is not None:
            yield from self.right

    def walk_down(self, depth=0):
        """Yield (depth, value) of each node, parents first; handed up by a loop at every level."""
        yield depth, self.value
        for child in (self.left, self.right):
            if child is not None:
                for pair in child.walk_down(depth + 1):  # noqa: UP028 (the loop is what is measured)
                    yield pair

    def count_leaves(self):
        """Yield each leaf and return how many there were."""
        if self.left is None and self.right is None:
            yield self.value
            return 1
        count = 0
        for child in (self.left, self.right):
            if child is not None:
                count += yield from child.count_leaves()
        return count


def build_tree(low, high):
    """Return a balanced tree of the numbers from `low` up to, but not including, `high`."""
    if low >= high:
        return None
    middle = (low + high) // 2
    return Tree(build_tree(low, middle), middle, build_tree(middle + 1, high))


def traverse(tree):
    in_order = 0
    previous = -1
    for value in tree:
        if value <= previous:
            raise AssertionError(f"{value} after {previous}")
        previous = value
        in_order += value
    deep = sum(depth * value for depth, value in tree.walk_down())
    leaves = tree.count_leaves()
    leaf_sum = 0
    while True:
        try:
            leaf_sum += next(leaves)
        except StopIteration as stop:
            return in_order, deep, leaf_sum, stop.value


def generate_randoms(seed, count):
    for _ in range(count):
        seed = (seed * 1103515245 + 12345) % 2**31
        yield seed >> 16


def drop_multiples(numbers, divisor):
    for number in numbers:
        if number % divisor:
            yield number


def pair_up(numbers):
    """Yield each number with the one before it."""
    iterator = iter(numbers)
    previous = next(iterator)
    for number in iterator:
        yield previous, number
        previous = number


def split_into_batches(items, size):
    batch = []
    for item in items:
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def run_pipeline(count):
    numbers = generate_randoms(42, count)
    for divisor in (3, 5, 7):
        numbers = drop_multiples(numbers, divisor)
    rises = (b - a for a, b in pair_up(numbers) if b > a)
    return sum(max(batch) - min(batch) for batch in split_into_batches(rises, 8))


def average(weight):
    """Yield the running average of the numbers that are sent, in whole numbers."""
    current = 0
    while True:
        number = yield current
        current += (number - current) // weight


def feed_average(count):
    averages = average(4)
    next(averages)
    total = 0
    for number in generate_randoms(7, count):
        total += averages.send(number)
    averages.close()
    return total


def count_down(name, start, log):
    try:
        while start > 0:
            yield name
            start -= 1
    finally:
        log.append(name)


def take_turns(tasks):
    """Resume `tasks` in turn until all are finished; the first to be seen twelve times is closed before its end."""
    ready = deque(tasks)
    seen = {}
    while ready:
        task = ready.popleft()
        try:
            name = next(task)
        except StopIteration:
            continue
        seen[name] = seen.get(name, 0) + 1
        if seen[name] == 12:
            task.close()
        else:
            ready.append(task)
        yield name


def run_tasks(count):
    total = 0
    for _ in range(count):
        log = []
        tasks = [count_down(name, start, log) for name, start in enumerate((3, 20, 7, 11))]
        turns = sum(1 for _ in take_turns(tasks))
        if log != [0, 2, 1, 3]:
            raise AssertionError(f"tasks finished in the order {log}")
        total += turns
    return total


def run(n):
    """Do each part `n` times and return the results' sums."""
    sums = [0] * 7
    tree = build_tree(0, 2**TREE_DEPTH - 1)
    for _ in range(n):
        results = (*traverse(tree), run_pipeline(STREAM_LENGTH), feed_average(STREAM_LENGTH), run_tasks(10))
        sums = [total + result for total, result in zip(sums, results)]
    return tuple(sums)


# All but the pipeline and the averages follow from the numbers 0 to 1022, those at depth d having a mean of 511,
# and from 3 + 12 + 7 + 11 turns of the tasks.
ONE_ROUND = (522753, 4187134, 261632, 512, 641793, 16243496, 330)
EXPECTED = {1: ONE_ROUND, 3: tuple(3 * part for part in ONE_ROUND)}
