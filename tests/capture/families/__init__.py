"""Small programs in families, written for tests/capture/test_perturbation.py: each part that they read gets changed."""

from capture.families import breaks, calls, classes, flow, identity, indices, keys, matching, state, tensors, texts

MODULES = [indices, keys, texts, calls, matching, classes, state, flow, breaks, identity, tensors]
FAMILIES = {family.name: family for module in MODULES for family in module.FAMILIES}
CASES = {case.name: case for family in FAMILIES.values() for case in family}
