"""What compiled functions do when no graph fits, and whether they are compiled at all: torch.compiler.set_stance."""

from __future__ import annotations

import contextlib

from torch._dynamo import config, eval_frame
from torch._dynamo.backends.registry import lookup_backend

from alternator import _capture, compiling

theirs = eval_frame._set_stance


class Stance:
    """The stance that torch.compiler.set_stance() has set, for all compiled functions."""

    def __init__(self):
        self.run_only = False
        self.forced = [None]  # backends; compiled functions have graphs of their own for each, by its number here
        self.replacements = {(eval_frame, "_set_stance"): self.set}

    def set(self, stance):
        if _capture.is_tracing():
            raise RuntimeError("attempted to set_stance in a torch.compile region")
        known = ("default", "force_eager", "eager_on_recompile", "fail_on_recompile")
        if stance.stance not in (*known, "eager_then_compile", "aot_eager_then_compile"):
            raise RuntimeError(f"invalid torch.compile stance '{stance}'")
        before = theirs(stance)
        if stance.backend not in self.forced:
            self.forced.append(stance.backend)
        compiling.forced_backend = None if stance.backend is None else lookup_backend(stance.backend)
        _capture.set_stance(stance.stance == "force_eager", self.forced.index(stance.backend))
        return before

    @contextlib.contextmanager
    def without_traces(self):
        """Have compiled functions use the graphs that they have, and run eagerly otherwise."""
        before, self.run_only = self.run_only, True
        try:
            yield
        finally:
            self.run_only = before

    def permits_trace(self, account):
        """Tell whether a new trace of a compiled function may begin."""
        code, reason = account.code, account.miss
        name = eval_frame._stance.stance
        if name == "eager_on_recompile" or self.run_only or config.disable:
            return False
        if name == "eager_then_compile" and account.eager_calls == 0:
            account.eager_calls += 1
            return False
        if eval_frame._stance.skip_guard_eval_unsafe:
            raise RuntimeError(
                "Recompilation triggered with skip_guard_eval_unsafe stance. This usually means that you have not "
                "warmed up your model with enough inputs such that you can guarantee no more recompilations."
            )
        if name == "fail_on_recompile":
            text = (
                "Detected recompile when torch.compile stance is 'fail_on_recompile'. "
                f"filename: '{code.co_filename}', function name: '{code.co_name}', line number: {code.co_firstlineno}"
            )
            if reason:
                text += f"\n    triggered by the following guard failure(s):\n    - {reason}"
            raise RuntimeError(text)
        return True


stance = Stance()
stance.set.__func__._dynamo_forbidden = True
