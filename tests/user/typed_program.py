"""A user's program, for type checkers: it uses all of the public API, and mypy --strict accepts it."""

from __future__ import annotations

import typing

import torch

import alternator
from alternator import events


def scale(x: torch.Tensor, n: int) -> torch.Tensor:
    return x * n


compiled = alternator.compile(scale, backend="eager", dynamic=True)
result: torch.Tensor = compiled(torch.ones(2), 3)
typing.assert_type(compiled(torch.ones(2), n=3), torch.Tensor)


@alternator.compile(backend="eager", fullgraph=True)
def decorated(x: torch.Tensor) -> torch.Tensor:
    return x + 1


@alternator.compile
def plain(x: torch.Tensor) -> int:
    return len(x.shape)


typing.assert_type(decorated(result), torch.Tensor)
typing.assert_type(plain(result), int)
model = alternator.compile(torch.nn.Linear(2, 2), backend="eager", options={"a": 1})
typing.assert_type(model, torch.nn.Linear)


def backend(module: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> typing.Callable[..., typing.Any]:
    return module.forward


alternator.compile(scale, backend=backend)
found = alternator.explain(scale)(torch.ones(2), 3)
typing.assert_type(found.graph_count, int)
reasons: list[str] = [stop.reason for stop in found.break_reasons]
with alternator.report("page.html", title="mine") as page:
    page.write()


def hear(event: events.Event) -> None:
    if isinstance(event, events.Recompiled):
        print(event.reason, event.function.name)


with events.listen(hear, calls=True), alternator.installed():
    alternator.set_logs("graph_breaks", guards=True)
    alternator.set_progress(False)
    alternator.set_threads("wait")
try:
    decorated(result)
except alternator.Unsupported as error:
    if error.stop is not None and error.stop.place is not None:
        print(error.stop.hints[0], error.stop.place.line)
alternator.reset()
typing.assert_type(alternator.frames_translated(), int)
typing.assert_type(alternator.interpret(plain)(result), int)
typing.assert_type(alternator.is_interpreting(), bool)
