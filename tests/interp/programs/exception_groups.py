"""Exception groups and except*."""
# ruff: noqa


def _make_group():
    return ExceptionGroup(
        "outer", [ValueError(1), KeyError("k"), ExceptionGroup("inner", [ValueError(2), TypeError("t")])]
    )


def _shape(error):
    if isinstance(error, BaseExceptionGroup):
        return (error.message, [_shape(part) for part in error.exceptions])
    return repr(error)


def split_by_handlers(log):
    try:
        raise _make_group()
    except* ValueError as group:
        log.append(_shape(group))
    except* (KeyError, TypeError) as group:
        log.append(_shape(group))
    return "done"


def rest_is_reraised(log):
    try:
        raise _make_group()
    except* ValueError as group:
        log.append(_shape(group))


def rest_is_reraised_and_caught_outside(log):
    try:
        try:
            raise _make_group()
        except* KeyError:
            log.append("key")
        finally:
            log.append("finally")
    except ExceptionGroup as group:
        log.append(_shape(group))
        return group.__context__, group.__cause__


def nothing_matches(log):
    try:
        raise _make_group()
    except* OSError:
        log.append("no")
    else:
        log.append("no else either")


def naked_exception_is_wrapped(log):
    try:
        raise ValueError("naked")
    except* ValueError as group:
        log.append((type(group).__name__, _shape(group)))
    try:
        raise KeyError("passes")
    except* ValueError:
        log.append("no")


def else_and_finally(log):
    try:
        log.append("body")
    except* ValueError:
        log.append("no")
    else:
        log.append("else")
    finally:
        log.append("finally")


def raising_in_handlers(log):
    try:
        raise _make_group()
    except* ValueError as group:
        raise RuntimeError("from handler")
    except* KeyError:
        raise OSError("second") from None


def bare_reraise_in_handler(log):
    try:
        raise _make_group()
    except* ValueError:
        log.append("value")
        raise
    except* TypeError:
        log.append("type")


def reraise_group_by_name(log):
    try:
        raise _make_group()
    except* (ValueError, TypeError) as group:
        log.append(_shape(group))
        raise group


def handler_names_are_unbound(log):
    try:
        raise _make_group()
    except* Exception as group:
        log.append(len(group.exceptions))
    return "group" in locals()


def group_kind_is_refused(log):
    try:
        raise ValueError("x")
    except* ExceptionGroup:
        log.append("unreachable")


def non_exception_kind_is_refused(log):
    try:
        raise ValueError("x")
    except* (KeyError, "text"):
        log.append("unreachable")


def nested_star_handlers(log):
    try:
        try:
            raise _make_group()
        except* ValueError:
            log.append("inner value")
            raise ExceptionGroup("new", [KeyError("new")])
    except* KeyError as group:
        log.append(_shape(group))
    except* TypeError as group:
        log.append(_shape(group))


def loop_with_star_handlers(log):
    for i in range(4):
        try:
            if i % 2:
                raise ExceptionGroup(f"g{i}", [ValueError(i), KeyError(i)])
            raise ValueError(i) if i else KeyError(i)
        except* ValueError as group:
            log.append(_shape(group))
        except* KeyError as group:
            log.append(_shape(group))
        else:
            log.append("else")
    return i


def group_subclass_with_derive(log):
    class Mine(ExceptionGroup):
        def derive(self, parts):
            log.append(("derive", len(parts)))
            return Mine(self.message + "'", parts)

    try:
        raise Mine("mine", [ValueError(1), KeyError(2), ValueError(3)])
    except* ValueError as group:
        log.append((type(group).__name__, _shape(group)))


def base_exception_group(log):
    group = BaseExceptionGroup("base", [KeyboardInterrupt(), ValueError(1)])
    log.append(type(group).__name__)
    log.append(type(BaseExceptionGroup("plain", [ValueError()])).__name__)
    try:
        raise group
    except* ValueError:
        log.append("value")


def split_and_subgroup(log):
    group = _make_group()
    match, rest = group.split(lambda e: isinstance(e, (KeyError, TypeError)))
    log.append((_shape(match), _shape(rest)))
    log.append(_shape(group.subgroup(ValueError)))
    return group.subgroup(OSError)


def group_errors(log):
    for make in (
        lambda: ExceptionGroup("x", []),
        lambda: ExceptionGroup("x", [1]),
        lambda: ExceptionGroup("x", 5),
        lambda: ExceptionGroup("x", [KeyboardInterrupt()]),
        lambda: ExceptionGroup(1, [ValueError()]),
    ):
        try:
            make()
        except Exception as e:
            log.append((type(e).__name__, str(e)))


def notes_and_cause_are_kept(log):
    group = _make_group()
    group.add_note("noted")
    try:
        raise group from OSError("cause")
    except* KeyError:
        log.append("key")


def star_in_generator(log):
    def gen():
        try:
            yield 1
        except* ValueError as group:
            log.append(_shape(group))
            yield 2
        yield 3

    g = gen()
    next(g)
    log.append(g.throw(_make_group_of_values()))
    log.append(next(g))
    g.close()


def _make_group_of_values():
    return ExceptionGroup("values", [ValueError(1), ValueError(2)])
