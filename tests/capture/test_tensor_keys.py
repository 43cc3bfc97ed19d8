"""Dicts from outside whose keys are tensors, and items of dicts that are replaced unread."""

import collections

import pytest
import torch

from capture.agreement import Captured, same

pytestmark = pytest.mark.capture


def make_keys(count=3):
    return [torch.full((2,), float(number)) for number in range(count)]


def list_items(table, keys):
    """Tell what a dict has, by the numbers of its keys."""
    numbers = {id(key): number for number, key in enumerate(keys)}
    return [(numbers[id(key)], value) for key, value in table.items()]


def fill(table, keys):
    for key in keys:
        state = table[key]
        if len(state) == 0:
            state["sum"] = torch.zeros_like(key)
        state["sum"] = state["sum"] + key
    return [table[key]["sum"] * 2 for key in keys]


def collect(table, keys):
    for key in keys:
        table[key].append(key + 1)
    return table[keys[0]][0] * 2


def store(table, keys):
    for number, key in enumerate(keys):
        table[key] = key * number
    return table[keys[0]] + 1


def look(table, keys):
    return [table[key] + 1 if key in table else key * 3 for key in keys]


def get(table, keys):
    return [key + table.get(key, 5) for key in keys]


def remove(table, keys):
    found = table.pop(keys[0], None)
    if keys[1] in table:
        del table[keys[1]]
    return keys[0] + 1, found, keys[0] in table


def fails(table, keys):
    y = keys[0] + 1
    try:
        return table[keys[2]]
    except KeyError:
        return y


PROGRAMS = {
    fill: (lambda: collections.defaultdict(dict), 1),
    collect: (lambda: collections.defaultdict(list), 1),
    store: (dict, 1),
    look: (dict, 1),
    get: (dict, 1),
    remove: (dict, 1),
    fails: (dict, None),
}


@pytest.mark.parametrize("filled", [0, 1, 2], ids=["empty", "one", "two"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_program(program, filled):
    make, graphs = PROGRAMS[program]
    runs = [program, Captured(program)]
    tables, keys = [make(), make()], [make_keys(), make_keys()]
    for table, own in zip(tables, keys):
        for key in own[:filled]:
            table[key] = {"sum": key + 5} if program is fill else [key] if program is collect else key * 7
    for call in range(4):
        results = [(run(table, own), list_items(table, own)) for run, table, own in zip(runs, tables, keys)]
        assert same(results[1], results[0])
        if call == 0 and graphs is not None:
            assert len(runs[1].graphs) == graphs, runs[1].breaks
    assert program is collect or len(runs[1].graphs) <= 3  # its lists grow


@pytest.mark.parametrize("program", [fill, collect, store, look, get, remove])
def test_what_it_depends_on(program):
    """Items that are there, are not, and keys that become one."""
    compiled = Captured(program)
    make = PROGRAMS[program][0]
    for filled, double in ((0, False), (0, True), (1, False), (1, True), (3, False), (3, True), (0, False)):
        results = []
        for run in (program, compiled):
            table, keys = make(), make_keys()
            used = [keys[0], keys[0], keys[2]] if double else keys
            for key in keys[:filled]:
                table[key] = {"sum": key + 5} if program is fill else [key] if program is collect else key * 7
            results.append((run(table, used), list_items(table, keys)))
        assert same(results[1], results[0])


def test_a_factory_that_is_code_runs_for_real():
    def program(table, keys):
        return [key + table[key] for key in keys]

    made = []

    def factory():
        made.append(1)
        return 3

    compiled = Captured(program)
    for count in (3, 6):
        table, keys = collections.defaultdict(factory), make_keys()
        for _ in range(3):
            assert same(compiled(table, keys), [key + 3 for key in keys])
        assert len(made) == count


def test_the_factory_is_guarded():
    compiled = Captured(collect)
    table, keys = collections.defaultdict(list), make_keys()
    compiled(table, keys)
    table.clear()
    table.default_factory = None
    with pytest.raises(KeyError):
        compiled(table, keys)


# ---- Items that are replaced unread --------------------------------------------------------------------------------


def replace(table, x):
    table["n"] = 3
    table["x"] = x + 1
    return table["x"] * table["n"]


def replace_and_delete(table, x):
    table["n"] = 3
    del table["n"]
    return x * 2


def replace_twice(table, x):
    table["n"] = 1
    table["n"] = 3
    return x + table.pop("n")


def read_and_replace(table, x):
    y = x + table["n"]
    table["n"] = 3
    return y


@pytest.mark.parametrize("kind", [dict, collections.OrderedDict])
@pytest.mark.parametrize("program", [replace, replace_and_delete, replace_twice])
def test_the_old_value_is_not_guarded(program, kind):
    compiled = Captured(program)
    x = torch.ones(2)
    for value in (3, 4, "text", None, [1], torch.ones(1), 3):
        tables = [kind(first=1, n=value, x=value) for _ in range(2)]
        results = [(run(table, x), table) for run, table in zip((program, compiled), tables)]
        assert same(results[1], results[0])
    assert len(compiled.graphs) == 1
    for table in (kind(x=1), kind(n=4), kind(n=3, x=2, more=1)):
        tables = [table.copy(), table.copy()]
        results = [(run(table, x), table) for run, table in zip((program, compiled), tables)]
        assert same(results[1], results[0])


def test_a_value_that_was_read_is_guarded():
    compiled = Captured(read_and_replace)
    for value in (3, 4, 5, 6, 3, 7.5):
        tables = [{"n": value}, {"n": value}]
        results = [(run(table, torch.ones(2)), table) for run, table in zip((read_and_replace, compiled), tables)]
        assert same(results[1], results[0])


class Box:
    pass


def test_a_number_that_is_followed_is_replaced_by_what_it_was():
    def program(box, table, x):
        box.seen = box.n
        table["seen"] = table["n"]
        box.n = 3
        table["n"] = 3
        return x + 1

    compiled = Captured(program)
    for value in (1, 2, 3, 4, 5, 3, 6):
        results = []
        for run in (program, compiled):
            box, table = Box(), {"n": value}
            box.n = value
            results.append((run(box, table, torch.ones(2)), vars(box), table))
        assert same(results[1], results[0])
