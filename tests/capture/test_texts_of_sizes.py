"""Texts and lengths that are made of sizes: the sizes stay free unless somebody looks at the text."""

import pytest
import torch

from capture.agreement import Captured, same

pytestmark = pytest.mark.capture

COLUMNS = (5, 9, 13, 7, 21, 4, 104)


def count(function, make=lambda n: (torch.arange(2.0 * n).reshape(2, n),)):
    captured = Captured(function)
    for n in (*COLUMNS, *COLUMNS):
        assert same(captured(*make(n)), function(*make(n)))
    assert captured.breaks == []
    return len(captured.graphs)


def length_of_shape(x):
    return x.sin() if len(x.shape) == 2 else x.cos()


def class_of_shape(x):
    return x.sin() if isinstance(x.shape, tuple) and type(x.size()) is torch.Size else x.cos()


def item_behind_a_length(x):
    size = x.size()
    return x * (size[0] if len(size) == 1 else size[1])


def message(x):
    text = f"expected {x.dim()} but found {x.size()}, {x.shape[1]:>4} and {x.shape[0]:>5}"
    return x.sin() if text is not None else x


def message_of_parts(x):
    text = "sizes " + str(x.shape) + repr(tuple(x.shape)) + "of %s and %d" % (tuple(x.shape), x.shape[1])
    more = [text]
    return x.sin() if len(more) == 1 else x


def message_in_a_branch(x):
    text = f"sizes {x.shape}"
    if x.dim() != 2:
        raise ValueError(text)
    return x + 1


def message_in_an_exception(x):
    try:
        raise ValueError(f"sizes {x.shape}")
    except ValueError:
        return x + 1


FREE = [
    *(length_of_shape, class_of_shape, item_behind_a_length, message, message_of_parts),
    message_in_a_branch,
]


@pytest.mark.parametrize("function", FREE, ids=lambda each: each.__name__)
def test_sizes_stay_free(function):
    assert count(function) == 2


def text_is_given_out(x):
    return x + 1, f"sizes {x.shape}"


def text_is_compared(x):
    return x + 1 if f"{x.shape[1]} columns" == "13 columns" else x - 1


def text_is_measured(x):
    return x + len(f"{x.shape}")


def text_of_one_character(x):
    return x + 1 if f"{x.shape[1]}" == "9" else x - 1


def text_is_a_key(x):
    return x * {"(2, 13)": 3}.get(str(tuple(x.shape)), 2)


def text_is_kept(x):
    kept = {"text": "%s" % x.shape[1]}
    return x + 1, kept


def text_in_a_text(x):
    text = f"<{f'{x.shape}':>30}>"
    return x + text.count("1")


def text_in_a_set(x):
    return x + len({f"{x.shape[1] % 3} columns", "1 columns"})


def text_in_a_list_that_is_sorted(x):
    return x + 1, sorted([f"{x.shape[1]} columns", "12 columns"])


RELYING = [
    *(text_is_given_out, text_is_compared, text_is_measured, text_of_one_character, text_is_a_key, text_is_kept),
    *(text_in_a_text, text_in_a_set, text_in_a_list_that_is_sorted, message_in_an_exception),
]


@pytest.mark.parametrize("function", RELYING, ids=lambda each: each.__name__)
def test_a_text_that_somebody_looks_at(function):
    assert count(function) > 2


def test_a_text_that_is_written_to_an_object():
    class Holder:
        text = ""

    def write(holder, x):
        holder.text = f"sizes {x.shape}"
        return x + 1

    captured = Captured(write)
    for n in COLUMNS:
        mine, eagers = Holder(), Holder()
        assert same(captured(mine, torch.ones(2, n)), write(eagers, torch.ones(2, n)))
        assert mine.text == eagers.text


def test_encoder():
    encoder = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 1).eval()
    assert count(lambda x: encoder(x), lambda n: (torch.arange(32.0 * n).reshape(2, n, 16) / 100,)) == 2
