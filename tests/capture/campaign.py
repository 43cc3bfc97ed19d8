"""Runs very many generated programs, eagerly and compiled, with changes between the calls, and keeps what differs.

    ./dev python tests/capture/campaign.py --programs 100000 --seed 0 --jobs 2 --out findings.txt [--seconds 3600]

A seed is a program (sources.py) and what is changed between its calls. Worker processes tell before each program which
it is: one that dies or hangs is a finding of that seed, and another goes on behind it. Each finding is made small, by
leaving out and unwrapping lines and calls for as long as it stays what it is, and written to the file; findings that
become the same small program are counted.
"""

import argparse
import collections
import contextlib
import functools
import gc
import json
import os
import random
import re
import select
import signal
import sys
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch  # noqa: E402
from interp.fuzz import list_smaller  # noqa: E402

import alternator  # noqa: E402
from capture import sources  # noqa: E402
from capture.perturbing import SETTINGS, Case, Difference, Pair, Unfit, Walk, heard, list_trials  # noqa: E402

FINE = "fine"
CALL, AGAIN = ("call",), ("again",)  # with new arguments; with those of the call before
CHANGES = 4
DYNAMIC = [False] * 6 + [None] * 5 + [True]  # symbols cost ten times as much as constants
HANG_SECONDS = 30
REDUCING_SECONDS = 25
ANEW = 100  # programs after which everything that was compiled is forgotten


class Failed(Exception):
    """alternator says that something of its own went wrong."""


def plan_calls(pair, case, choice):
    """Choose what happens: an unchanged call, and calls with changes, most of them of what the program names."""
    pair.make_arguments()
    trials = list_trials(Walk(pair.eager, most=200))
    words = set(re.findall(r"\w+", case.text))
    near = [trial for trial in trials if trial[0].startswith("args") or words & set(re.findall(r"\w+", trial[0])[-1:])]
    steps = [CALL]
    for _ in range(CHANGES):
        steps.append(choice.choice(near if near and choice.random() < 0.8 else trials))
        if choice.random() < 0.2:
            steps.append(choice.choice([CALL, AGAIN]))
    return [*steps, CALL]


def run_steps(pair, steps):
    """Run the calls; raise Difference where the worlds part."""
    for number, step in enumerate(steps):
        if step == CALL:
            pair.call()
        elif step == AGAIN:
            pair.compare("the same arguments again")
        else:
            pair.try_change(*step)
        yield number


def judge(case, steps=None, choice=None, backend="eager", dynamic=None):
    """Return (verdict, details, the steps that were made)."""
    said, done = [], -1
    try:
        with heard(said):
            pair = Pair(case, backend=backend, dynamic=dynamic)
            if steps is None:
                steps = plan_calls(pair, case, choice)
            for number in run_steps(pair, steps):
                done = number
    except Difference as difference:
        steps = steps[: done + 2]
        return (FINE, [], steps) if differs_eagerly(case, steps) else (difference.kind, difference.lines, steps)
    except Unfit:
        return FINE, [], steps
    except SyntaxError as error:
        return "does not compile", [str(error)], []
    if said:
        return "alternator failed", said[:1], steps
    return FINE, [], steps


def differs_eagerly(case, steps):
    """Whether the program tells apart two runs of which neither is compiled: by addresses, say."""
    for _ in range(5):
        try:
            for _ in run_steps(Pair(case, compile=lambda program: program), steps):
                pass
        except Difference:
            return True
    return False


def judge_seed(seed, backend="eager"):
    choice = random.Random(seed * 2 + 1)
    dynamic = choice.choice(DYNAMIC)
    return judge(sources.write(seed), None, choice, backend, dynamic)


# ---- processes -------------------------------------------------------------------------------------------------------


def prepare_worker():
    """What is done once in a process."""
    torch.set_num_threads(1)
    torch._dynamo.config.recompile_limit = SETTINGS["recompile_limit"]
    torch._dynamo.config.accumulated_recompile_limit = SETTINGS["accumulated_recompile_limit"]
    warnings.simplefilter("ignore")
    gc.collect()
    gc.freeze()


def work(seeds, writer, backend):
    """Judge seeds one after the other; tell of each before and after."""
    prepare_worker()
    with os.fdopen(writer, "w", buffering=1) as pipe:
        for number, seed in enumerate(seeds):
            pipe.write(f"{seed}\n")
            try:
                answer = judge_seed(seed, backend)
            except BaseException as error:
                answer = f"the harness fails: {type(error).__name__}", [repr(error)[:300]], []
            if answer[0] != FINE:
                pipe.write(json.dumps([seed, *answer]) + "\n")
            if number % ANEW == ANEW - 1:
                alternator.reset()
                gc.collect()
    os._exit(0)


@functools.cache
def warm_up():
    """Capture something once, so that what is made at the first use is there in all children."""
    alternator.compile(lambda x: x + 1, backend="eager")(torch.ones(2))


def fork(do, *args):
    """Run a function in a child; return (process, what it writes to)."""
    warm_up()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        try:
            do(*args[:1], writer, *args[1:])
        finally:
            os._exit(1)
    os.close(writer)
    return child, reader


class Worker:
    """A process that goes through seeds, and what it was busy with last."""

    def __init__(self, seeds, backend):
        self.seeds, self.backend = seeds, backend
        self.rest, self.current, self.done = b"", None, 0
        self.start()

    def start(self):
        self.process, self.reader = fork(work, self.seeds, self.backend)
        self.heard = time.monotonic()

    def read(self):
        """Take what was written; return findings, and None at the end."""
        data = os.read(self.reader, 1 << 16)
        self.heard = time.monotonic()
        if not data:
            return None
        *lines, self.rest = (self.rest + data).split(b"\n")
        findings = []
        for line in lines:
            if line.startswith(b"["):
                findings.append(json.loads(line))
            else:
                self.done += self.current is not None
                self.current = int(line)
        return findings

    def end(self):
        """The process is over: return a finding if it died, and go on behind it."""
        status = os.waitpid(self.process, 0)[1]
        os.close(self.reader)
        self.rest = b""
        if not os.WIFSIGNALED(status) and os.WEXITSTATUS(status) == 0:
            self.done += self.current is not None
            self.seeds = []
            return None
        seed = self.current
        self.seeds = self.seeds[self.seeds.index(seed) + 1 :] if seed in self.seeds else []
        self.done, self.current = self.done + 1, None
        what = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else f"exit {os.WEXITSTATUS(status)}"
        if self.seeds:
            self.start()
        return [seed, "hang" if what == "SIGKILL" else f"killed by {what}", [what], None]

    def stop(self):
        os.kill(self.process, signal.SIGKILL)


class Campaign:
    def __init__(self, seed, programs, jobs, seconds, backend="eager", out=None, most=1000, reduce=True):
        self.backend, self.out, self.reduce = backend, out, reduce
        self.findings = []  # (seed, verdict, details, steps)
        self.small = collections.Counter()
        self.tried, began = 0, time.monotonic()
        end = began + seconds
        seeds = range(seed, seed + programs)
        workers = [Worker(seeds[i::jobs], backend) for i in range(jobs)]
        active = list(workers)
        while active and time.monotonic() < end and len(self.findings) < most:
            ready = select.select([w.reader for w in active], [], [], 1.0)[0]
            for worker in list(active):
                if worker.reader in ready:
                    found = worker.read()
                    if found is None:
                        died = worker.end()
                        found = [died] if died else []
                        if not worker.seeds:
                            active.remove(worker)
                    for one in found:
                        self.note(*one)
                elif time.monotonic() - worker.heard > HANG_SECONDS:
                    worker.stop()
                    worker.heard = time.monotonic()
        self.tried = sum(worker.done for worker in workers)
        self.seconds = time.monotonic() - began
        for worker in active:
            worker.stop()
            with contextlib.suppress(ChildProcessError):
                os.waitpid(worker.process, 0)
        if reduce:
            self.reduce_all()

    def note(self, seed, verdict, details, steps):
        if verdict.startswith("killed") and dies_eagerly(seed):
            return  # torch's own crash
        self.findings.append((seed, verdict, details, steps))
        if self.out:
            with open(self.out, "a") as file:
                file.write(f"==== seed {seed}: {verdict}\n" + "\n".join(details) + "\n\n")

    def reduce_all(self):
        """Make the findings small, and write each small program once."""
        for seed, verdict, details, steps in self.findings:
            text, steps, details = reduce_finding(seed, verdict, steps, details, self.backend)
            key = (verdict, re.sub(r"\d+", "0", text))
            self.small[key] += 1
            if self.small[key] == 1 and self.out:
                with open(self.out, "a") as file:
                    file.write(f"#### seed {seed}: {verdict}\n{text}\n{steps}\n" + "\n".join(details) + "\n\n")

    def summary(self):
        kinds = collections.Counter(verdict for _, verdict, _, _ in self.findings)
        rate = self.tried / max(self.seconds, 0.001)
        return f"{self.tried} programs in {self.seconds:.0f} s, {rate:.1f} a second; findings: {dict(kinds) or 'none'}"


# ---- small findings --------------------------------------------------------------------------------------------------


def judge_apart(case, steps, backend, dynamic=None, seconds=10):
    """Judge one case in a process of its own."""

    def do(_, writer):
        prepare_worker()
        signal.alarm(seconds)
        answer = judge(case, steps, None, backend, dynamic)
        os.write(writer, json.dumps(answer).encode())
        os._exit(0)

    process, reader = fork(do, None)
    with open(reader, "rb") as pipe:
        text = pipe.read()
    status = os.waitpid(process, 0)[1]
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        return ("hang" if name == "SIGALRM" else f"killed by {name}"), [name], steps
    return json.loads(text) if text else ("the harness fails", [], steps)


def dies_eagerly(seed):
    """Whether the same calls kill a process in which nothing is compiled."""

    def do(_, writer):
        prepare_worker()
        signal.alarm(HANG_SECONDS)
        choice = random.Random(seed * 2 + 1)
        choice.choice(DYNAMIC)
        case = sources.write(seed)
        pair = Pair(case, compile=lambda program: program)
        for _ in run_steps(pair, plan_calls(pair, case, choice)):
            pass
        os._exit(0)

    process, reader = fork(do, None)
    os.close(reader)
    return os.WIFSIGNALED(os.waitpid(process, 0)[1])


def with_text(case, text):
    if isinstance(case, sources.Generated):
        return case.with_text(text)
    return Case(case.name, text)


def reduce_finding(seed, verdict, steps, details, backend):
    """Return (text, steps, details) of a program that is as small as it was found possible."""
    case = sources.write(seed)
    choice = random.Random(seed * 2 + 1)
    dynamic = choice.choice(DYNAMIC)
    if steps is None:  # it died: the steps are those that the seed chooses
        with contextlib.suppress(Exception):
            steps = plan_calls(Pair(case, backend=backend, compile=lambda program: program), case, choice)
    return reduce_case(case, verdict, steps, details, backend, dynamic)


def reduce_case(case, verdict, steps, details, backend="eager", dynamic=None):
    """Leave out calls and lines for as long as the verdict stays."""
    if not steps:
        return case.text, steps, details
    steps = [tuple(step) for step in steps]
    end = time.monotonic() + REDUCING_SECONDS

    def stays(text, calls):
        return judge_apart(with_text(case, text), calls, backend, dynamic)[0] == verdict

    text = case.text
    if not stays(text, steps):
        return text, steps, ["(does not repeat by itself)", *details]
    for fewer in ([steps[-1]], [CALL, steps[-1]]):
        if len(fewer) < len(steps) and stays(text, fewer):
            steps = fewer
            break
    else:
        for step in steps[-2::-1]:
            fewer = list(steps)
            fewer.remove(step)
            if time.monotonic() < end and stays(text, fewer):
                steps = fewer
    lines, smaller = text.splitlines(), True
    while smaller and time.monotonic() < end:
        smaller = False
        for candidate in list_smaller(lines):
            if time.monotonic() > end:
                break
            joined = "\n".join(candidate)
            try:
                compile(joined, "", "exec")
            except SyntaxError:
                continue
            if stays(joined, steps):
                lines, smaller = candidate, True
                break
    text = "\n".join(lines)
    return text, steps, judge_apart(with_text(case, text), steps, backend, dynamic)[1]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="the first of them")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=86400)
    parser.add_argument("--backend", default="eager")
    parser.add_argument("--out", help="a file to which findings are added")
    parser.add_argument("--most", type=int, default=1000, help="stop after so many findings")
    parser.add_argument("--as-found", action="store_true", help="do not make findings small")
    options = parser.parse_args()
    torch.set_num_threads(1)
    campaign = Campaign(
        *(options.seed, options.programs, options.jobs, options.seconds, options.backend, options.out, options.most),
        reduce=not options.as_found,
    )
    print(campaign.summary())
    sys.exit(1 if campaign.findings else 0)
