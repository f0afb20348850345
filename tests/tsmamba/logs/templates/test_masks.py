import time

import pytest

from tsmamba.logs.templates.masks import LENGTH, WILD, folded, mask, opening, shape, split


def masked(text):
    return " ".join(mask(shape(text)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("  took   12.5ms ", "took <*>ms"),
        ("offset -7", "offset <*>"),
        ("10.0.0.7:8080 refused", "<*> refused"),
        ("at 0xDEADbeef", "at <*>"),
        ("commit 9fceb02d0ae5", "commit <*>"),
        ("facade defaced", "facade defaced"),
        ("id 123e4567-e89b-12d3-a456-426614174000 gone", "id <*> gone"),
        ("eth0 user42x", "eth<*> user<*>x"),
        ("uid=0,pid=12b;x=y", "uid=<*>,pid=<*>;x=y"),
        ("at Sat Jun 11 03:28:22 2005 by", "at <*> by"),
        ("at Jun  1 03:28:22 by", "at <*> by"),
        ("lifetime <1 sec", "lifetime <*>"),
        ("1190 bytes (1.16 KB) sent", "<*> bytes sent"),
        ("ask blk_1 blk_2", "ask blk_<*> blk_<*>"),
        ("ask blk_1 blk_2 blk_3 blk_4", "ask blk_<*> <*>..."),
        ("no no no", "no no no"),
        ("größe \ud800 7", "größe \ud800 <*>"),
    ],
)
def test_masks(text, expected):
    assert masked(text) == expected


def test_a_raw_message_has_one_word_for_each_masked_word(make_stream):
    dated = [f"since Sat Jun 11 0{i}:28:22 2005 {i} bytes ({i}.1 KB) <{i} sec" for i in range(9)]
    for text in make_stream(300) + dated:
        words = folded(split(text, shape(text).decode()))
        pairs = zip(words, mask(shape(text)), strict=True)
        assert all(WILD in masked or masked == word for word, masked in pairs)


def test_of_a_long_message_whole_words_of_the_beginning_count():
    text = opening("word " * LENGTH)
    assert set(text.split()) == {"word", WILD}
    assert len(text) <= LENGTH + len(WILD)
    assert opening("x" * 10 * LENGTH).split() == [WILD]
    assert opening("\n\n first\nsecond") == "first"


@pytest.mark.parametrize(
    "piece", ["0", "a", "f0", "=", "=0", " ", ".", "0.", "-", "<0 a", "Jun ", "é"]
)
def test_time_is_linear_in_the_length(piece):
    def seconds(length):
        text = shape(piece * (length // len(piece)))
        start = time.process_time()
        mask(text)
        return time.process_time() - start

    # A quadratic pattern takes 10,000 times as long for text 100 times as long.
    assert seconds(500_000) < 1_000 * max(seconds(5_000), 1e-4)
