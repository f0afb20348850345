import re

import pytest

from tsmamba_datasets._catalog import CATALOG, find_file, package_file
from tsmamba_datasets.errors import DatasetError

SUM = re.compile(r"[0-9a-f]{64}")


@pytest.mark.parametrize("name", CATALOG)
def test_every_entry_has_files_terms_and_a_page(name: str) -> None:
    entry = CATALOG[name]
    assert entry.name == name
    assert entry.files
    assert entry.licence in entry.page
    assert entry.columns in entry.page
    for heading in ("# ", "- Source: ", "## Good to know", "## Usual split", "## Checksums"):
        assert heading in entry.page


@pytest.mark.parametrize("name", CATALOG)
def test_file_rows_are_well_formed(name: str) -> None:
    for file in CATALOG[name].files:
        assert SUM.fullmatch(file.sha256)
        assert SUM.fullmatch(file.content_sha256)
        assert (file.sha256 == file.content_sha256) == (not file.path.endswith(".gz"))
        assert not file.path.startswith("/")
        if file.url:
            # Owner, repository, then a commit and never a branch, which would move.
            assert re.fullmatch(
                r"https://raw\.githubusercontent\.com/[\w.-]+/[\w.-]+/[0-9a-f]{12,40}/.+", file.url
            )


def test_every_row_belongs_to_an_entry() -> None:
    rows = package_file("data/files.csv").read_text(encoding="utf-8").splitlines()[1:]
    listed = [file.path for entry in CATALOG.values() for file in entry.files]
    assert len(listed) == len(set(listed)) == len(rows) == 350


def test_every_page_belongs_to_an_entry() -> None:
    pages = {page.stem for page in package_file("descr").iterdir()}
    assert pages == set(CATALOG)


def test_small_sets_show_their_sums_on_the_page() -> None:
    for entry in CATALOG.values():
        shown = [file for file in entry.files if file.sha256 in entry.page]
        assert shown == list(entry.files) or "data/files.csv" in entry.page


def test_unknown_path_is_refused() -> None:
    with pytest.raises(DatasetError, match=r"path='no/such\.csv' is not in data/files\.csv"):
        find_file("no/such.csv")
