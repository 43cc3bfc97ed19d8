"""The random generator: torch.manual_seed, torch.get_rng_state, torch.set_rng_state.

A node that seeds the generator would do so when a backend runs the graph's nodes to compile them. So the generator is
set around the graph (around.py): in front of it as long as the trace has drawn no random numbers, behind it otherwise;
then the next draw is a break. So the order is that of the program.
"""

from __future__ import annotations

import functools

import torch

from alternator import _capture
from alternator.substitutes import make_call, substitute
from alternator.torch_errors import Unsupported

SEEDS = range(-0x8000_0000_0000_0000, 0x1_0000_0000_0000_0000)

# The originals; while tracing others stand in their places.
seed_generator, get_state, set_state = torch.random.manual_seed, torch.get_rng_state, torch.set_rng_state


class Seeding:
    """The generator gets a seed in front of the graph."""

    def __init__(self, seed):
        self.seed = seed

    def make(self, inputs, made, for_real):
        if for_real:
            seed_generator(self.seed)


class Setting:
    """The generator gets the state that an input is, or a State."""

    def __init__(self, is_made, number):
        self.is_made = is_made
        self.number = number

    def make(self, inputs, made, for_real):
        if for_real:
            set_state((made if self.is_made else inputs)[self.number])


class State:
    """The state of the generator becomes an input."""

    requires_grad = False

    def make(self, inputs, made, for_real):
        return get_state()


# ---- Rules ---------------------------------------------------------------------------------------------------------


def seed(tracer, func, args, kwargs):
    (value,) = args
    if type(value) is not int or value not in SEEDS:
        raise Unsupported("a random seed that is not a number or out of range")
    if has_drawn(tracer):
        put_behind(tracer, functools.partial(seed_behind, value))
    else:
        tracer.around.front.append(Seeding(value))
    tracer.sets_generator = True


def read_state(tracer, func, args, kwargs):
    if has_drawn(tracer) or tracer.last_draw is not None:
        raise Unsupported("the random generator's state, after random numbers were drawn")
    like = get_state()
    options = {"dtype": like.dtype, "device": like.device}
    fake = tracer.compute(torch.empty, (like.numel(),), options)
    known = tracer.know(fake)
    known.node, known.leaf = tracer.writer.add_leaf(torch.Tensor, fake), State()
    tracer.around.front.append(known.leaf)
    tracer.leaves.append(known)
    tracer.watch_version(fake)
    return fake


def write_state(tracer, func, args, kwargs):
    (state,) = args
    if not isinstance(state, torch.Tensor):
        raise Unsupported("the random generator's state is set to something that is not a tensor")
    known, like = tracer.find(state), get_state()
    fake = known.fake
    is_own = type(known.leaf) is State
    if (fake.shape, fake.dtype, fake.device) != (like.shape, like.dtype, like.device) or tracer.has_changed(fake):
        raise Unsupported("the random generator's state is set to an unknown or changed tensor")
    if not is_own and (known.real is None or tracer.around.actions):  # it might be refused, behind other actions
        raise Unsupported("the random generator's state is set to a tensor that the function computed")
    tracer.node_of(state)
    if has_drawn(tracer):
        put_behind(tracer, functools.partial(set_behind, tracer.value_of(known)))
    else:
        number = tracer.leaves.index(known) if is_own else tracer.number_of(known)
        tracer.around.front.append(Setting(is_own, number))
    tracer.sets_generator = True


def has_drawn(tracer):
    """Tell whether the trace has drawn random numbers so far. An operator of the user's may have done so."""
    return count_draws() != tracer.first_draw


def count_draws():
    return _capture.count_draws() + _capture.count_foreign()


def put_behind(tracer, action):
    tracer.around.actions.append(action)
    tracer.last_draw = count_draws()
    tracer.unusual.append("the random generator is set behind the graph")


def seed_behind(value, values):
    seed_generator(value)


def set_behind(number, values):
    set_state(values[number])


# ---- What is called while tracing ----------------------------------------------------------------------------------


set_seed = make_call(seed_generator, seed)
read_generator = make_call(get_state, read_state)
write_generator = make_call(set_state, write_state)


def manual_seed(seed):
    set_seed(int(seed))
    return torch.default_generator


def get_rng_state():
    return read_generator()


def set_rng_state(new_state):
    write_generator(new_state)


def prepare():
    """Have traces call these in the place of torch's functions."""
    for call in (set_seed, read_generator, write_generator):
        _capture.add_contract("torch", call)
    substitute(seed_generator, manual_seed)
    substitute(get_state, get_rng_state)
    substitute(set_state, set_rng_state)


def follow_seed():
    """Find torch.manual_seed again: TorchDynamo puts a wrapper in its place when it is imported."""
    global known_seed
    found = torch.manual_seed
    if found is not known_seed and getattr(found, "__wrapped__", None) is seed_generator:
        substitute(found, manual_seed)
    known_seed = found


known_seed = seed_generator
