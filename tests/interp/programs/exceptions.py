"""try, except, else and finally in their combinations; raising, chaining and re-raising."""
# ruff: noqa

import sys


class _Problem(Exception):
    def __init__(self, code, *rest):
        super().__init__(code, *rest)
        self.code = code


def _fail(kind, *args):
    raise kind(*args)


def all_paths(log):
    def run(action):
        log.append(action)
        try:
            if action == "value":
                raise ValueError("v")
            if action == "key":
                raise KeyError("k")
            if action == "zero":
                1 // 0
            if action == "return":
                return "from try"
        except (ValueError, KeyError) as e:
            log.append(("handled", repr(e)))
        except ArithmeticError:
            log.append("arithmetic")
            return "from handler"
        else:
            log.append("else")
            return "from else"
        finally:
            log.append("finally")
        return "after"

    return [run(action) for action in ("nothing", "value", "key", "zero", "return")]


def no_handler_matches(log):
    try:
        raise OSError(2, "gone")
    except (ValueError, KeyError):
        log.append("wrong")
    except LookupError:
        log.append("wrong too")
    finally:
        log.append("finally")


def bare_except(log):
    try:
        raise SystemExit(3)
    except:
        log.append(sys.exc_info()[0].__name__)
    return sys.exc_info()


def handler_by_expression(log):
    def kinds():
        log.append("evaluated")
        return (TypeError, (ValueError))

    try:
        raise ValueError
    except kinds() as e:
        log.append(type(e).__name__)
    try:
        raise ValueError("inner")
    except KeyError:
        pass
    except [ValueError]:
        log.append("a list is no kind")


def handler_with_non_exception(log):
    try:
        raise ValueError("original")
    except "text":
        log.append("unreachable")


def handler_with_tuple_of_non_exceptions(log):
    try:
        raise ValueError("original")
    except (KeyError, 5):
        log.append("unreachable")


def handler_matches_by_mro_only(log):
    """Matching ignores __instancecheck__ and __subclasscheck__."""

    class Meta(type):
        def __instancecheck__(cls, instance):
            log.append("instancecheck")
            return True

        def __subclasscheck__(cls, other):
            log.append("subclasscheck")
            return True

    class Greedy(Exception, metaclass=Meta):
        pass

    try:
        try:
            raise ValueError("v")
        except Greedy:
            log.append("greedy")
    except ValueError as e:
        return e.args


def return_in_finally_swallows(log):
    def f():
        try:
            raise ValueError("lost")
        finally:
            log.append(sys.exc_info()[0].__name__)
            return "kept"

    return f()


def return_in_finally_overrides(log):
    def f():
        try:
            return log.append("try") or "first"
        finally:
            return "second"

    def g():
        for i in range(3):
            try:
                return i
            finally:
                if i < 2:
                    continue
        return "end"

    return f(), g()


def break_in_finally(log):
    for i in range(5):
        try:
            log.append(i)
            1 // (2 - i)
        finally:
            if i >= 2:
                break
    return i


def continue_in_finally(log):
    total = 0
    for i in range(4):
        try:
            if i % 2:
                raise ValueError(i)
            total += i
        finally:
            log.append((i, sys.exc_info()[1] is None))
            continue
    return total


def break_and_continue_through_finally(log):
    for i in range(6):
        try:
            try:
                if i == 1:
                    continue
                if i == 4:
                    break
                log.append(i)
            finally:
                log.append(("inner", i))
        finally:
            log.append(("outer", i))
    else:
        log.append("never")
    return i


def break_and_continue_in_handlers(log):
    for i in range(6):
        try:
            raise ValueError(i) if i % 2 else KeyError(i)
        except ValueError as e:
            if i == 1:
                continue
            log.append(("break", e.args))
            break
        except KeyError as e:
            log.append(("key", e.args))
    return sys.exc_info()


def nested_finally_order(log):
    def f():
        try:
            try:
                try:
                    raise ValueError("deep")
                finally:
                    log.append(1)
            except KeyError:
                log.append("no")
            finally:
                log.append(2)
        finally:
            log.append(3)

    try:
        f()
    finally:
        log.append(4)


def exception_in_handler(log):
    try:
        {}["first"]
    except KeyError:
        log.append("handling")
        [].pop()


def exception_in_finally(log):
    try:
        raise KeyError("first")
    finally:
        raise ValueError("second")


def exception_in_else(log):
    try:
        log.append("try")
    except ValueError:
        log.append("not for else")
    else:
        raise ValueError("from else")
    finally:
        log.append("finally")


def raise_forms(log):
    for thing in (ValueError, ValueError(1), _Problem(5, "rest")):
        try:
            raise thing
        except Exception as e:
            log.append((e is thing, e.args))
    for thing in (5, "text", None, int, Exception()):
        try:
            raise thing
        except Exception as e:
            log.append((type(e).__name__, str(e)))
    raise _Problem


def raise_class_that_builds_something_else(log):
    class Liar(Exception):
        def __new__(cls, *args):
            return 42

    raise Liar


def raise_class_that_fails_to_build(log):
    class Fragile(Exception):
        def __init__(self):
            raise RuntimeError("cannot build")

    raise Fragile


def raise_from(log):
    try:
        try:
            {}["cause"]
        except KeyError as e:
            raise ValueError("effect") from e
    except ValueError as e:
        log.append((repr(e.__cause__), repr(e.__context__), e.__suppress_context__))
        raise TypeError("none") from None


def raise_from_class(log):
    try:
        raise ValueError("x") from KeyError
    except ValueError as e:
        log.append(repr(e.__cause__))
    raise ValueError("y") from 5


def raise_from_evaluation_order(log):
    def say(x):
        log.append(type(x).__name__)
        return x

    raise say(ValueError("a")) from say(KeyError("b"))


def bare_reraise(log):
    try:
        try:
            raise _Problem(7)
        except _Problem as e:
            e.add_note("seen once")
            log.append(e.code)
            raise
    except _Problem as e:
        e.add_note("seen twice")
        raise


def bare_raise_without_exception(log):
    raise


def bare_reraise_in_called_function(log):
    def again():
        raise

    try:
        [][1]
    except IndexError:
        again()


def reraise_by_name(log):
    saved = None
    try:
        _fail(ValueError, "saved")
    except ValueError as e:
        saved = e
    log.append(saved.args)
    raise saved


def reraise_many_times(log):
    """The traceback grows with each passage through a frame."""
    error = ValueError("passed around")

    def throw(n):
        if n:
            try:
                throw(n - 1)
            except ValueError as e:
                raise e
        raise error

    try:
        throw(2)
    except ValueError:
        pass
    throw(1)


def with_traceback_replaced(log):
    try:
        _fail(KeyError, "k")
    except KeyError as e:
        kept = e.__traceback__.tb_next
        raise ValueError("new").with_traceback(kept)


def context_is_set_and_cycles_are_broken(log):
    a, b = ValueError("a"), KeyError("b")
    try:
        try:
            raise a
        except ValueError:
            raise b
    except KeyError:
        try:
            raise a
        except ValueError as e:
            log.append((e.__context__ is b, b.__context__ is None))
            raise


def context_reset_after_handler(log):
    try:
        raise ValueError("first")
    except ValueError:
        pass
    raise KeyError("no context")


def context_inside_called_function(log):
    def helper():
        log.append(sys.exc_info()[0].__name__)
        try:
            raise TypeError("inner")
        except TypeError as e:
            log.append(repr(e.__context__))
        log.append(sys.exc_info()[0].__name__)

    try:
        raise ValueError("outer")
    except ValueError:
        helper()
    return sys.exc_info()


def context_through_generator(log):
    def gen():
        log.append(sys.exc_info()[0])
        try:
            yield 1
        except KeyError as e:
            log.append(repr(e.__context__))
            yield 2
        log.append(sys.exc_info()[0])

    g = gen()
    try:
        raise ValueError("outer")
    except ValueError:
        log.append(next(g))
        log.append(g.throw(KeyError("thrown")))
    log.append(sys.exc_info()[0])
    return list(g)


def exc_info_nesting(log):
    def show():
        log.append(getattr(sys.exc_info()[1], "args", None))

    show()
    try:
        raise ValueError(1)
    except ValueError:
        show()
        try:
            raise ValueError(2)
        except ValueError:
            show()
            try:
                raise ValueError(3)
            except ValueError:
                show()
            show()
        show()
    show()


def exception_variable_captured(log):
    functions = []
    for i in range(2):
        try:
            raise ValueError(i)
        except ValueError as e:
            functions.append(lambda: e)
    for f in functions:
        try:
            f()
        except NameError as e:
            log.append(str(e))
    raise KeyError(len(functions))


def exception_variable_rebound_in_handler(log):
    try:
        raise ValueError("x")
    except ValueError as e:
        e = 5
        log.append(e)
    try:
        raise ValueError("y")
    except ValueError as e:
        del e
    return "e" in locals()


def try_in_loops(log):
    results = []
    for text in ("1", "x", "3", "", "5"):
        try:
            value = int(text)
        except ValueError:
            results.append(None)
            continue
        else:
            if value == 5:
                break
        finally:
            log.append(text)
        results.append(value)
    else:
        results.append("else")
    return results


def deep_nesting(log):
    try:
        try:
            try:
                try:
                    _fail(KeyError, 1)
                except ValueError:
                    log.append("a")
                finally:
                    log.append("b")
            except KeyError as e:
                log.append(e.args)
                _fail(IndexError, 2)
            else:
                log.append("c")
        except LookupError as e:
            log.append(repr(e.__context__))
            raise ValueError(3) from e
        finally:
            log.append("d")
    except ValueError as e:
        log.append(repr(e.__cause__))
        return [repr(e), repr(e.__cause__.__context__)]
    finally:
        log.append("e")


def stack_depth_in_handler(log):
    """A handler in the middle of an expression must find the right stack."""

    def risky(n):
        try:
            return [n, 10 // n]
        except ZeroDivisionError:
            return [n, None]

    total = []
    for a in range(3):
        for b in [x for x in range(2)]:
            try:
                total += [a, *risky(a), {"k": b, **({} if b else {"z": 1 // a})}]
            except ZeroDivisionError:
                total.append("zero")
    return total


def exception_from_every_call_depth(log):
    def level(n):
        if n == 0:
            return {}["bottom"]
        try:
            return level(n - 1)
        finally:
            log.append(n)

    level(4)


def errors_from_c_code(log):
    for action in (
        lambda: int("z"),
        lambda: [].remove(1),
        lambda: {}.popitem(),
        lambda: "x".index("y"),
        lambda: next(iter(())),
        lambda: getattr(1, "nothing"),
        lambda: b"\xff".decode(),
        lambda: chr(-1),
        lambda: open("/no/such/file"),
        lambda: float("many"),
        lambda: (1).to_bytes(0, "big"),
        lambda: max([]),
        lambda: sorted([1, "a"]),
    ):
        try:
            action()
        except Exception as e:
            log.append((type(e).__name__, str(e)))
    return int("0x", 16)


def exception_state_restored_by_finally(log):
    def f():
        try:
            raise ValueError("pending")
        finally:
            try:
                raise KeyError("inside")
            except KeyError as e:
                log.append(repr(e.__context__))
            log.append(repr(sys.exc_info()[1]))

    f()


def exception_notes(log):
    e = ValueError("with notes")
    e.add_note("one")
    e.__notes__.append("two")
    try:
        e.add_note(3)
    except TypeError as error:
        log.append(str(error))
    raise e


def generator_expression_raises(log):
    def check(n):
        if n == 2:
            raise ValueError(n)
        return n

    try:
        log.extend(check(n) for n in range(5))
    except ValueError as e:
        log.append(e.args)
    return sum(check(n) for n in (1, 2))
