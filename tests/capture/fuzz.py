"""Hunts for generated programs that do something else when they are compiled, and makes what it finds small.

    ./dev python --flavour=checked tests/capture/fuzz.py --seed 1 --seconds 600 [--backend aot_eager]

Programs run in child processes, a batch in each, so that a crash or a hang is a finding like any other. A finding is
reduced by leaving out and unwrapping lines for as long as its verdict stays the same, and printed.
"""

import argparse
import os
import random
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch  # noqa: E402
from interp.fuzz import list_smaller  # noqa: E402

from capture import grammar  # noqa: E402
from capture.comparing import FINE, Compared  # noqa: E402

BATCH = 20
CHILD_SECONDS = 60
REDUCING_SECONDS = 60


def write(seed):
    """Return the program and the plans of a seed."""
    number = random.Random(seed).randint
    return grammar.write_program(number), grammar.write_plans(number)


def judge(text, plans, backend):
    """Return (verdict, detail, number of captures)."""
    try:
        compared = Compared(text, plans, backend)
    except SyntaxError:
        return "does not compile", "", 0
    return compared.verdict, f"{compared.detail}\n{compared.said}", compared.captures


def judge_in_child(cases, backend):
    """Judge cases one after the other in a child; yield verdicts up to the first that kills it, which is one too."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        for case in cases:
            signal.alarm(CHILD_SECONDS)
            try:
                answer = judge(*case, backend)
            except BaseException as error:
                answer = f"the harness fails: {type(error).__name__}", repr(error), 0
            os.write(writer, repr(answer).encode() + b"\n")
        os._exit(0)
    os.close(writer)
    with open(reader) as pipe:
        yield from map(eval, pipe)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        yield f"killed by {signal.Signals(os.WTERMSIG(status)).name}", "", 0


def reduce_case(text, plans, verdict, backend):
    """Make a program and its calls smaller for as long as the verdict stays the same."""

    def stays(candidate, calls):
        return next(judge_in_child([(candidate, calls)], backend))[0] == verdict

    for fewer in (plans[:1], plans[1:], plans[:2]):
        if fewer and stays(text, fewer):
            plans = fewer
            break
    lines, smaller = text.splitlines(), True
    end = time.monotonic() + REDUCING_SECONDS
    while smaller and time.monotonic() < end:
        smaller = False
        for candidate in list_smaller(lines):
            if stays("\n".join(candidate), plans):
                lines, smaller = candidate, True
                break
    return "\n".join(lines), plans


class Hunt:
    def __init__(self, seed, seconds, backend, most):
        self.backend, self.most = backend, most
        self.tried = self.captured = 0
        self.findings = {}
        end = time.monotonic() + seconds
        while time.monotonic() < end and sum(self.findings.values()) < most:
            seeds = range(seed, seed + BATCH)
            answers = list(judge_in_child([write(s) for s in seeds], backend))
            for one, answer in zip(seeds, answers, strict=False):
                self.note(one, *answer)
            seed += len(answers)

    def note(self, seed, verdict, detail, captures):
        self.tried += 1
        self.captured += captures > 0
        if verdict == FINE:
            return
        self.findings[verdict] = self.findings.get(verdict, 0) + 1
        text, plans = reduce_case(*write(seed), verdict, self.backend)
        answer = next(judge_in_child([(text, plans)], self.backend))
        print(f"==== seed {seed}: {verdict}\n{text}\n{plans}\n{answer[1]}", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, help="where to start; every number is a program")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--backend", default="eager")
    parser.add_argument("--most", type=int, default=20, help="stop after so many findings")
    options = parser.parse_args()
    hunt = Hunt(options.seed, options.seconds, options.backend, options.most)
    print(f"{hunt.tried} programs, {hunt.captured} of them captured, findings: {hunt.findings or 'none'}")
    sys.exit(1 if hunt.findings else 0)
