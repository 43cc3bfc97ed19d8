"""Facts and attributes of tensors, tensors in containers, writes in place, arguments of torch's functions."""

from capture.families.writing import Family

tensors = Family("tensor")
tensors.document("""
=== facts |
return x * 2, x.shape, x.dtype, x.dim(), x.numel(), x.stride(), x.is_contiguous(), x.requires_grad
=== facts that decide |
if x.dim() == 2 and x.dtype == torch.float32 and x.shape[0] > 2:
    return x * 2
return x - 1
=== is_leaf and grad |
return x * 2, x.is_leaf, x.grad is None, x.requires_grad
=== attributes of its own | t=torch.ones(4)
t.tag = 3
return x * t.tag, hasattr(t, 'other')
=== an attribute from outside | t=mark(torch.ones(4), 2)
def mark(t, n):
    t.tag = n
    return t
---
return x * t.tag + t
=== layout |
return x * 2 if x.is_contiguous() else x - 1, x.stride()
=== a size as a number |
n = x.shape[0]
return x * n + n // 2, n
=== a size in a shape | n=2
return torch.ones(x.shape[0], n) @ torch.ones(n, x.shape[1]) + x
=== a size in a list |
s = [*x.shape]
s[0] *= 2
return torch.zeros(s) + 1, s
=== a size that divides |
return x.reshape(-1, x.shape[-1] // 2) * 2 if x.shape[-1] % 2 == 0 else x
=== written in place | n=2
x.mul_(n)
return x + 1
=== written through a view | i=0
v = x[i]
v.zero_()
return x + 1, v
=== written through a transpose |
x.t()[0].add_(1)
return x * 2
=== written and returned |
y = x.add_(1)
return y is x, y
=== augmented | t=torch.ones(4)
x += t
t *= 2
return x, t
=== an argument and its view | t=torch.ones(3, 4)
v = t.view(-1)
v[0] = 9
return x + t, v
=== a list of tensors | a=[torch.ones(4), torch.zeros(4)]
a.append(x * 2)
a[0] = a[1] + 1
return a
=== a dict of tensors | d={'a': torch.ones(4), 'b': torch.zeros(4)}
return {k: v + x for k, v in d.items()}
=== a tuple of tensors | t=(torch.ones(4), torch.zeros(4))
a, b = t
return x + a, b, t
=== a named tuple of tensors | p=Point(torch.ones(4), 2)
return p._replace(a=p.a + x), p.b
=== a record of tensors | r=Record('n', [torch.ones(4)], torch.zeros(4))
r.best = r.best + x
r.values.append(x)
return r.best * 2
=== nested | a=[{'t': (torch.ones(4), [torch.zeros(4)])}]
return a[0]['t'][0] + a[0]['t'][1][0] + x
=== the same tensor twice | a=[torch.ones(4)] * 2
a[0].add_(1)
return a[1] + x, a[0] is a[1]
=== a tensor in a set of attributes | o=Thing(t=torch.ones(4), n=2)
o.t = o.t * o.n
return o.t + x
=== a tensor as a key | t=torch.ones(4)
d = {t: 3}
return x * d[t], t in d
=== a tensor compared | t=torch.ones(4)
return (x > t).sum(), x.shape == t.shape, t is x
=== a zero-dimensional tensor | t=torch.tensor(2.0)
return x * t + t.item()
=== a number or a tensor | v=2
return x * v if not isinstance(v, torch.Tensor) else x + v
=== a dtype | d=torch.float64
return x.to(d) * 2, torch.zeros(2, dtype=d)
=== a dim | d=0, k=True
return x.sum(d, keepdim=k), x.mean(dim=d), x.softmax(d)
=== dims | d=(0, 1)
return x.sum(d), x.flip(d)
=== a list of sizes | s=[1, 3]
return [t * 2 for t in x.split(s, dim=1)]
=== chunks | n=2
return [t.shape for t in x.chunk(n, dim=1)], x.chunk(n)[0] * 2
=== cat along a dim | a=[torch.ones(3, 1)], d=1
return torch.cat([x, *a], dim=d)
=== where | v=2.0
return torch.where(x > v, x, v)
=== clamped | a=1, b=None
return x.clamp(a, b)
=== einsum | s='ij,ij->i'
return torch.einsum(s, x, x)
=== padded | p=(1, 0)
return torch.nn.functional.pad(x, p, value=2.0)
=== a mode | m='constant'
return torch.nn.functional.pad(x, (1, 1), mode=m)
=== alpha | a=2
return torch.add(x, x, alpha=a)
=== arange | a=0, b=4, c=2
return torch.arange(a, b, c) + x[0, :1]
=== tensor of numbers | a=[1, [2]], v=2.5
return torch.tensor([a[0], a[1][0], v]) + x[0, :3]
=== tensor of a tuple | t=(1, 2, 3, 4)
return torch.tensor(t) + x
=== as_strided | s=(2, 2), t=(1, 2), o=1
return x.as_strided(s, t, o) * 2
=== expanded | n=2
return x.unsqueeze(0).expand(n, -1, -1).sum(0)
=== repeated | n=2, m=(1, 2)
return x.repeat(n, 1) * 2, x.tile(m)
=== rolled | n=1, d=0
return x.roll(n, d) * 2
=== topk | k=2
return x.topk(k, dim=1)
=== sorted | d=True
return x.sort(dim=0, descending=d).values * 2
=== broadcast | t=torch.ones(4)
return x + t, torch.broadcast_shapes(x.shape, t.shape)
=== requires_grad | t=torch.ones(4, requires_grad=True)
y = x * t
return y, y.requires_grad, y.grad_fn is None
=== detached | t=torch.ones(4, requires_grad=True)
return x * t.detach(), t * 2
=== a parameter | t=torch.nn.Parameter(torch.ones(4))
return x * t, isinstance(t, torch.nn.Parameter)
=== data | t=torch.ones(4)
t.data = t.data * 2
return x * t
=== set to another | t=torch.ones(3, 4)
x.copy_(t)
return x * 2
=== version | t=torch.ones(4)
t.add_(1)
return x * 2, t._version
=== item assignment by mask | v=9.0
x[x > 5] = v
return x * 2
=== a function from torch by name | n='relu'
return getattr(torch, n)(x - 5)
=== a function of torch in an argument | f=torch.sin
return f(x)
=== a lambda in an argument | f=lambda t: t * 2
return f(x) + 1
=== functions in a list | a=[torch.sin, torch.cos]
for f in a:
    x = f(x)
return x
=== vmap | n=2
return torch.vmap(lambda t: t * n)(x)
=== a gradient inside | n=2
t = torch.ones(4, requires_grad=True)
(t * n).sum().backward()
return x * t.grad
""")

FAMILIES = [tensors]
