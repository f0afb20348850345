from tsmamba.forecast.progress import progress_bar


def test_nothing_is_shown_unless_asked_for(capfd):
    with progress_bar(3, show=False) as report:
        report(1, 0.5)
    assert capfd.readouterr() == ("", "")


def test_the_bar_keeps_off_standard_output(capfd):
    with progress_bar(3, show=True) as report:
        for step in (1, 2, 3):
            report(step, 0.5)
    assert capfd.readouterr().out == ""
