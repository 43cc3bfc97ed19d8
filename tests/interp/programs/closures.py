"""Cells shared between functions, loops, generators and classes."""
# ruff: noqa


def counter(log):
    def make():
        n = 0

        def increment(by=1):
            nonlocal n
            n += by
            return n

        def reset():
            nonlocal n
            n = 0

        return increment, reset

    (a, reset_a), (b, _) = make(), make()
    a(), a(5), b()
    log.append((a(), b()))
    reset_a()
    return a(), b()


def late_binding_in_loop(log):
    late = [lambda: i for i in range(3)]
    early = [lambda i=i: i for i in range(3)]
    functions = []
    for j in range(3):
        functions.append(lambda: j)
    log.append([f() for f in functions])
    j = "changed"
    return [f() for f in late], [f() for f in early], [f() for f in functions]


def parameter_in_cell(log):
    def outer(a, *args, b=2, **kwargs):
        def inner():
            return a, args, b, kwargs

        a += 1
        kwargs["late"] = True
        return inner

    return outer(1, 2, 3, b=4, c=5)()


def cell_of_self_reference(log):
    def fact(n):
        return 1 if n < 2 else n * fact(n - 1)

    old, fact_of_5 = fact, fact(5)
    fact = lambda n: "replaced"
    return old(3), fact_of_5


def three_levels(log):
    def a(x):
        def b(y):
            def c(z):
                nonlocal x, y
                x, y = x + z, y * z
                return x, y, z

            return c, lambda: (x, y)

        return b

    c, look = a(1)(2)
    log.append(c(3))
    log.append(look())
    log.append(c(4))
    return look()


def cells_seen_through_function_objects(log):
    def outer():
        x, y = 1, "y"

        def inner():
            return x, y

        return inner

    f = outer()
    log.append((f.__code__.co_freevars, [cell.cell_contents for cell in f.__closure__]))
    f.__closure__[0].cell_contents = 99
    log.append(f())
    del f.__closure__[1].cell_contents
    return f()


def closure_over_comprehension(log):
    matrix = [[(lambda: (i, j, k)) for j in range(2)] for i in range(2)]
    k = "k"
    return [f() for row in matrix for f in row]


def class_cell_and_free_variables(log):
    tag = "outer"

    class A:
        def who(self):
            return __class__.__name__, tag

        def rename(self):
            nonlocal tag
            tag = "renamed"

    a = A()
    log.append(a.who())
    a.rename()
    A = None
    return a.who(), tag


def closure_in_generator(log):
    def gen():
        total = 0

        def add(x):
            nonlocal total
            total += x
            return total

        while True:
            x = yield add
            if x is None:
                return total
            total *= x

    g = gen()
    add = next(g)
    add(5)
    g.send(3)
    log.append(add(1))
    try:
        next(g)
    except StopIteration as stop:
        return stop.value


def closure_survives_exception(log):
    saved = []

    def f():
        state = {"step": 0}

        def look():
            return dict(state), step

        saved.append(look)
        for step in range(3):
            state["step"] = step
            if step == 2:
                raise ValueError(step)

    try:
        f()
    except ValueError:
        log.append(saved[0]())
    return saved[0]()


def decorator_with_arguments(log):
    def repeat(n):
        def decorate(fn):
            count = 0

            def wrapper(*args, **kwargs):
                nonlocal count
                count += 1
                log.append((fn.__name__, count))
                return [fn(*args, **kwargs) for _ in range(n)]

            return wrapper

        return decorate

    @repeat(2)
    @repeat(1)
    def f(x, y=0):
        return x + y

    return f(1), f(1, y=2)


def cell_deleted_and_rebound(log):
    def outer():
        x = 1

        def read():
            return x

        def drop():
            nonlocal x
            del x

        def bind(value):
            nonlocal x
            x = value

        return read, drop, bind

    read, drop, bind = outer()
    log.append(read())
    drop()
    try:
        read()
    except NameError as e:
        log.append((str(e), e.name))
    bind(7)
    log.append(read())
    drop()
    drop()


def free_variable_in_class_body(log):
    def make(base, n):
        class Made(base):
            number = n
            doubled = [number for number in (n, n)]

            def get(self):
                return n, self.number

        return Made

    A = make(object, 1)
    B = make(A, 2)
    return A().get(), B().get(), B.doubled, [c.__name__ for c in B.__mro__]


def star_arguments_captured(log):
    def outer(*args, **kwargs):
        return lambda *more, **others: (args + more, {**kwargs, **others})

    return outer(1, a=2)(3, b=4)


def memoised_recursion(log):
    cache = {}

    def fib(n):
        if n not in cache:
            cache[n] = n if n < 2 else fib(n - 1) + fib(n - 2)
            log.append(n)
        return cache[n]

    return fib(12)
