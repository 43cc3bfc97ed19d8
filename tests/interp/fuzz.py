"""Hunts for generated programs on which the engines differ, for as long as one likes, and makes what it finds small.

    ./dev python --flavour=checked tests/interp/fuzz.py --seed 1 --seconds 600

Each program runs in a child process, so a crash is a finding like any other. A finding is reduced by leaving out and
unwrapping lines for as long as it stays the same, and printed; the reduced program belongs into `programs/` as a test
of its own. With `--whole` the prelude is reduced as well, which takes longer and leaves a program that stands alone.
"""

import argparse
import os
import random
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from interp import generate  # noqa: E402
from interp.test_generated import Replay, run_interpreted, run_natively, run_replayed  # noqa: E402

FINE = "fine"
CHILD_SECONDS = 20


class RandomWriter(generate.Writer):
    """Draws from a random generator instead of hypothesis: ten times as fast, and every seed is a program."""

    def __init__(self, seed, budget=45):
        super().__init__(None, budget)
        self.random = random.Random(seed)

    def number(self, low, high):
        return self.random.randint(low, high)


def judge(text):
    """Run a program in all engines; say what is wrong, or FINE."""
    try:
        code = generate.compile_program(text)
    except SyntaxError as error:
        return f"does not compile: {error}"
    native = run_natively(code)
    if run_natively(code) != native:
        return "not deterministic"
    if run_interpreted(code) != native:
        return "interpreted differs"
    replay = Replay(start=0, every=1)
    if run_replayed(code, replay) != native:
        return "re-created at every instruction differs"
    for every in (2, 3, 5, 7):
        if run_replayed(code, Replay(start=every - 1, every=every)) != native:
            return f"re-created every {every} instructions differs"
    for point in random.Random(1).choices(range(max(replay.instructions, 1)), k=6):
        if run_replayed(code, Replay(start=point, every=0)) != native:
            return "re-created once differs"
    return FINE


def judge_in_child(text):
    """As judge(), and a crash or a hang is a verdict too."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(CHILD_SECONDS)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            verdict = judge(text)
        except BaseException as error:
            verdict = f"the harness fails: {error!r}"
        os.write(writer, verdict.encode()[:2000])
        os._exit(0)
    os.close(writer)
    with open(reader) as pipe:
        verdict = pipe.read()
    status = os.waitpid(child, 0)[1]
    return f"killed by {signal.Signals(os.WTERMSIG(status)).name}" if os.WIFSIGNALED(status) else verdict


def measure_indent(line):
    return len(line) - len(line.lstrip())


def list_smaller(lines):
    """Candidates with less in them, largest cuts first: (index, lines)."""
    size = len(lines) // 2
    while size:
        for start in range(0, len(lines), size):
            yield lines[:start] + lines[start + size :]
        size //= 2
    for index, line in enumerate(lines):
        if line.rstrip().endswith(":"):
            end = index + 1
            while end < len(lines) and (not lines[end].strip() or measure_indent(lines[end]) > measure_indent(line)):
                end += 1
            yield lines[:index] + lines[end:]
            yield lines[:index] + [inner[4:] for inner in lines[index + 1 : end]] + lines[end:]
        elif line.strip() not in ("", "pass"):
            yield lines[:index] + [" " * measure_indent(line) + "pass"] + lines[index + 1 :]


def reduce_program(text, verdict):
    """Make a program smaller for as long as its verdict stays the same."""
    lines, smaller = text.splitlines(), True
    while smaller:
        smaller = False
        for candidate in list_smaller(lines):
            if judge_in_child("\n".join(candidate)) == verdict:
                lines, smaller = candidate, True
                break
    return "\n".join(lines)


def hunt(seed, seconds, whole):
    """Try one program after the other; return how many findings there were."""
    end, tried, findings = time.monotonic() + seconds, 0, {}
    while time.monotonic() < end:
        text = generate.write_program(RandomWriter(seed + tried))
        verdict = judge_in_child(text)
        if verdict != FINE:
            print(f"seed {seed + tried}: {verdict}", flush=True)
            if verdict not in findings:
                print(reduce_finding(text, verdict, whole), flush=True)
            findings[verdict] = findings.get(verdict, 0) + 1
        tried += 1
    print(f"{tried} programs, {sum(findings.values())} findings {findings or ''}")
    return sum(findings.values())


def reduce_finding(text, verdict, whole):
    if not whole:
        return reduce_program(text, verdict)
    prelude, generate.PRELUDE = generate.PRELUDE, ""
    try:
        return reduce_program(f"{prelude}\n\n{text}", verdict)
    finally:
        generate.PRELUDE = prelude


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, help="where to start; every number is a program")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--whole", action="store_true", help="reduce the prelude as well")
    options = parser.parse_args()
    sys.exit(1 if hunt(options.seed, options.seconds, options.whole) else 0)
