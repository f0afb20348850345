from tsmamba_datasets import errors


def test_one_class_catches_all() -> None:
    assert issubclass(errors.ChecksumError, errors.DatasetError)
    assert issubclass(errors.DownloadError, errors.DatasetError)
    assert errors.DatasetError.__base__ is Exception
