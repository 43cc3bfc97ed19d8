"""Formats: %, f-strings, str.format, repr and str of everything, join and other methods of texts."""

from capture.families.writing import Family

formats = Family("format")
texts = Family("text")

VALUES = {
    "int": "v=42",
    "float": "v=3.14159",
    "bool": "v=True",
    "None": "v=None",
    "text": "v='it'",
    "list": "v=[1, 'a', [2.5]]",
    "tuple": "v=(1, 'a')",
    "named tuple": "v=Point(1, [2])",
    "dict": "v={'a': 1, 'b': [2]}",
    "set": "v={1}",
    "record": "v=Record('n', [1, 2])",
    "enum": "v=Color.RED",
    "int enum": "v=Level.LOW",
    "flags": "v=Flags.A | Flags.B",
    "object with __repr__": "v=Key(3)",
    "deque": "v=collections.deque([1, 2], 3)",
    "ordered dict": "v=collections.OrderedDict(a=1)",
    "range": "v=range(1, 5)",
    "slice": "v=slice(1, 5)",
    "bytes": "v=b'ab'",
    "complex": "v=1 + 2j",
    "shape": "v=torch.Size([2, 3])",
    "dtype": "v=torch.float32",
    "class": "v=int",
    "text of a class": "v=Name('n')",
    "int of a class": "v=Count(4)",
    "list of a class": "v=Row([1, 2])",
    "tuple of a class": "v=Labels((1, 2))",
    "exception": "v=ValueError('bad', 3)",
    "counter": "v=collections.Counter('aab')",
    "frozen record": "v=Frozen(1, 'z')",
}
WAYS = {
    "str": "str(v)",
    "f-string": "f'{v}'",
    "f-string with repr and width": "f'<{v!r:>30}>'",
    "percent": "'%s/%r' % (v, v)",
    "format method": "'{0}-{0!s:<8}|'.format(v)",
    "in a list": "f'{[v, (v,)]}'",
}
for kind, arguments in VALUES.items():
    for way, expression in WAYS.items():
        formats.row(f"{kind} by {way}", arguments, expression)
formats.rows("""
    percent with a tuple | v=(1, 2) | '%s-%s' % v
    percent with a named tuple | v=Point(1, 2) | '%s-%s' % v
    percent with a dict | v={'a': 1, 'b': 'x'} | '%(a)d %(b)s' % v
    percent with a width | v=3, w=6 | '%*d' % (w, v)
    percent with a list | v=[1, 2] | '%s' % v
    percent of a template | t='%d of %s', v=(1, 'x') | t % v
    percent of bytes | t=b'%d', v=3 | t % v
    a nested width | v=3.14159, w=10, p=2 | f'{v:{w}.{p}f}'
    a spec from a text | v=255, s='#x' | f'{v:{s}}'
    a spec with fill | v='m', c='*', w=9 | f'{v:{c}^{w}}'
    debugging | v=[1] | f'{v=} {v!r}'
    format() with a spec | v=1234567.891, s=',.1f' | format(v, s)
    format with attributes | v=Point(1, [2]) | '{p.a} {p.b[0]}'.format(p=v)
    format with items | v={'k': [5, 6]} | '{d[k][1]}'.format(d=v)
    format with an attribute of an object | v=Thing(n=3, m=Thing(n=4)) | '{0.n} {0.m.n}'.format(v)
    format with stars | v=[1, 2], d={'a': 3} | '{} {} {a}'.format(*v, **d)
    format with a template | t='{0:>5}|{1!r}', v=['a', 2.5] | t.format(*v)
    format_map | d={'a': 1, 'b': 2} | '{a}-{b}'.format_map(d)
    format with a nested spec | v=2.5, w=8 | '{:{}.2f}'.format(v, w)
    a date of numbers | v=(2024, 1, 2) | '{:04d}-{:02d}-{:02d}'.format(*v)
    a tensor's shape | v='t' | f'{v}: {tuple(x.shape)} {x.dtype}'
    a tensor's size with a spec | w=5 | f'{x.shape[0]:>{w}}'
    nested records | v=Record('n', [Record('m', [1]), Point(1, 2)]) | repr(v)
    a list in a dict in a list | v=[{'a': [1, (2, 3)]}] | str(v)
    a list that holds itself | v=[1, [2]] | (v.append(v), repr(v))[1]
    a dict with enum keys | v={Color.RED: Level.HIGH} | f'{v}'
    an enum's name | v=Color.RED | f'{v.name}={v.value}'
    ascii | v='caf\\xe9' | ascii(v)
    chr and ord | v=97, s='b' | chr(v) + str(ord(s))
    hex, oct and bin | v=255 | hex(v) + oct(v) + bin(v)
    a number of a text | s='12', b=16 | (int(s), int(s, b), float(s))
    rounding | v=2.675, n=2 | (round(v, n), round(v), f'{v:.{n}e}')
    a percent sign | v=0.256 | f'{v:.1%}'
    thousands | v=1234567 | f'{v:,} {v:_}'
    a sign | v=5 | f'{v:+d}{-v: d}'
    a big number | v=12345678901234567890123 | f'{v} {v:x}'
    NaN and infinity | v=float('inf') | f'{v} {-v:>6} {v - v}'
    negative zero | v=-0.0 | f'{v} {v == 0}'
    text with braces | v='{}' | '{{{}}}'.format(v)
    text in a text | v="it's" | repr(v)
""")
formats.row(
    "__format__",
    "v=Money(3)",
    "f'{v:euro} {v}'",
    "class Money:\n    sign = '$'\n    def __init__(self, n):\n        self.n = n\n"
    "    def __format__(self, spec):\n        return f'{self.n}{spec or self.sign}'",
)
formats.row(
    "__str__ of a class",
    "v=Word('a')",
    "f'{v} {v!r} {str(v)}'",
    "class Word(str):\n    mark = '!'\n    def __str__(self):\n        return 'word' + self.mark",
)
formats.row(
    "__repr__ with attributes",
    "v=[Pen('red', [1])]",
    "f'{v}'",
    "class Pen:\n    def __init__(self, color, uses):\n        self.color, self.uses = color, uses\n"
    "    def __repr__(self):\n        return f'Pen({self.color!r}, {self.uses})'",
)
formats.row("a global template", "v=3", "y = x + 1\nreturn y, TEMPLATE.format(v), TEMPLATE", "TEMPLATE = '<{:>4}>'")
formats.row("behind a break", "v=Point(1, 2)", "y = x + 1\nstop()\nz = y * 2\nreturn z, f'{v} {v!r:>20}', '%s-%s' % v")
formats.row("printed", "v=Point(1, [2]), w={'a': 1}", "y = x + 1\nprint(v, w, f'{v}', sep='|')\nreturn y * 2")

texts.rows("""
    join | s='-', v=['a', 'b'] | s.join(v)
    join of numbers | v=[1, 2, 3] | ','.join(map(str, v))
    join of a comprehension | v=[1, [2]] | ','.join(f'{i}' for i in v)
    split | s='a,b,,c', p=',' | s.split(p)
    split with a limit | s='a b c', n=1 | (s.split(None, n), s.rsplit(' ', n))
    partition | s='key=value', p='=' | s.partition(p)
    strip | s='  ab ', c=' a' | (s.strip(), s.strip(c), s.lstrip())
    replace | s='abab', a='b', b='x', n=1 | s.replace(a, b, n)
    starts | s='abc', p=('a', 'x') | (s.startswith(p), s.endswith('c'))
    prefix | s='layer.weight', p='layer.' | (s.removeprefix(p), s.removesuffix('weight'))
    case | s='aBc' | (s.upper(), s.lower(), s.title(), s.swapcase(), s.casefold())
    tests | s='a1' | (s.isalpha(), s.isdigit(), s.isidentifier(), s.isalnum())
    fill | s='7', w=4 | (s.zfill(w), s.ljust(w, '.'), s.center(w))
    lines | s='a\\nb' | s.splitlines()
    translate | s='abc', t={97: 'x'} | s.translate(t)
    repeat | s='ab', n=3 | s * n
    plus | s='ab', t='cd' | s + t
    plus in a loop | v=['a', 'b'] | functools.reduce(operator.add, v)
    encode | s='ab', e='utf-8' | s.encode(e)
    a text as an attribute's name | o=Thing(a=1, b=2), s='a' | getattr(o, s)
    a text that decides | s='relu' | return getattr(torch, s)(x - 5)
    a text in a table of functions | s='sin', d={'sin': torch.sin, 'cos': torch.cos} | return d[s](x)
    a mode | s='mean' | return getattr(x, s)() + len(s)
    an expression of einsum | s='ij->ji' | return torch.einsum(s, x)
    sorted letters | s='hello' | (sorted(s), ''.join(sorted(set(s))))
    a regular expression | s='a12b3', p='[0-9]+' | re.findall(p, s)
    a substitution | s='a12b3' | re.sub('[0-9]+', lambda m: f'<{m.group()}>', s)
""")

FAMILIES = [formats, texts]
