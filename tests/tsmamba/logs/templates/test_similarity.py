import pytest

from tsmamba.logs.templates.cardinality import is_value, odd_place
from tsmamba.logs.templates.similarity import covers, distance, generalise


def words(text):
    return tuple(text.split())


@pytest.mark.parametrize(
    ("known", "new", "expected"),
    [
        ("a b c", "a b c", 0.0),
        ("a <*> c", "a b c", 0.0),
        ("a k=<*> c", "a k=v c", 0.0),
        ("a k=<*> c", "a k= c", 0.3 / 2.3),
        ("a b_1 c", "a c_1 c", 1 / 3),
        ("a b c", "a d c", 2 / 4),
        ("a x<*> c", "a y<*> c", 0.1 / 2.1),
        ("a b c", "a <*> c", 0.3 / 2.3),
        ("<*> <*>", "a b", 1.0),
        ("<*> x<*>", "<*> x<*>", 0.0),
    ],
)
def test_distance(known, new, expected):
    assert distance(words(known), words(new)) == pytest.approx(expected)


def test_a_template_covers_what_it_was_made_of(make_stream):
    lines = [words(line) for line in make_stream(200)]
    for length in {len(line) for line in lines}:
        alike = [line for line in lines if len(line) == length]
        template = generalise(*alike)
        assert all(covers(template, line) for line in alike)
        assert generalise(template, *alike) == template


def test_an_early_end_changes_no_distance_below_the_limit(make_stream):
    lines = [words(line) for line in make_stream(60)]
    for ours in lines:
        for theirs in (line for line in lines if len(line) == len(ours)):
            exact = distance(ours, theirs)
            early = distance(ours, theirs, most=0.1 / 0.9 * len(ours))
            assert early == exact or min(early, exact) > 0.1


def test_one_place_that_differs():
    assert odd_place(words("a b c"), words("a x c")) == 1
    assert odd_place(words("a b c"), words("a b c")) is None
    assert odd_place(words("a b c"), words("x b y")) is None


def test_what_may_be_a_value():
    line = words("user ann has <*> Failed,")
    assert [is_value(line, place) for place in range(5)] == [True, True, True, False, False]
    assert not is_value(words("user ann <*>"), 1)
