import pytest

from tsmamba import errors


@pytest.mark.parametrize(
    ("child", "parents"),
    [
        (errors.BrokerError, (errors.TsmambaError,)),
        (errors.CheckpointError, (errors.TsmambaError,)),
        (errors.FrameError, (errors.TsmambaError, ValueError)),
        (errors.CovariateError, (errors.FrameError,)),
        (errors.FrequencyError, (errors.FrameError,)),
        (errors.SeriesTooShortError, (errors.FrameError,)),
        (errors.ParameterError, (errors.TsmambaError, ValueError)),
        (errors.HorizonError, (errors.ParameterError,)),
        (errors.ModelFileError, (errors.TsmambaError,)),
        (errors.MissingExtraError, (errors.TsmambaError, ImportError)),
        (errors.CallbackWarning, (UserWarning,)),
        (errors.FrameWarning, (UserWarning,)),
        (errors.GuidanceWarning, (UserWarning,)),
        (errors.HealthWarning, (UserWarning,)),
    ],
)
def test_tree_is_the_one_in_the_docstring(child, parents):
    assert child.__bases__ == parents
    assert child.__name__ in errors.__doc__


def test_all_is_sorted_and_complete():
    public = [name for name, value in vars(errors).items() if isinstance(value, type)]
    assert errors.__all__ == sorted(public)
