import pytest

from tsmamba_datasets._checks import check_at_least, check_choice
from tsmamba_datasets.errors import DatasetError


def test_unknown_choice_names_given_accepted_and_repair() -> None:
    with pytest.raises(DatasetError) as caught:
        check_choice("region", "pjme", ["AEP", "PJME"])
    assert str(caught.value) == (
        "region='pjme' is unknown; accepted: 'AEP', 'PJME'. "
        "Pass one of these, such as region='AEP'."
    )


def test_long_lists_are_cut_and_counted() -> None:
    with pytest.raises(DatasetError, match=r"59 and 40 more\."):
        check_choice("number", -1, list(range(100)))


@pytest.mark.parametrize("given", [0, -3, float("nan"), float("inf")])
def test_numbers_out_of_range_are_refused(given: float) -> None:
    with pytest.raises(DatasetError, match="finite numbers from 1 up"):
        check_at_least("length", given, 1)


def test_accepted_values_pass() -> None:
    check_choice("region", "AEP", ["AEP"])
    check_at_least("length", 1, 1)
