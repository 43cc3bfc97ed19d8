"""Run one function, and every Python function that it calls, in Alternator's own evaluation loop."""

import alternator


def mean_length(words):
    return sum(len(word) for word in sorted(words, key=lambda word: word.lower())) / len(words)


interpreted = alternator.interpret(mean_length)  # the generator and the key function, called from C, run there too
print(interpreted(["Frames", "cells", "and", "generators"]))
