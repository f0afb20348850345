from benchmarks.records.report import value_tables


def line(model, mae, **more):
    codes = {
        "HR": {"values": 900, "mae": mae, **more},
        "Lactate": {"values": 300, "mae": mae + 0.1, **more},
    }
    return {"model": model, "macro": mae + 0.05, "micro": mae, "codes": codes, "seconds": 3.0}


def test_next_values_have_a_table_of_means_and_one_by_code():
    mamba = line("MambaForecaster", 0.3, coverage=0.91)
    mamba |= {"coverage": 0.91, "coverage_macro": 0.9}
    means, by_code = value_tables([line("GRU-D", 0.4), mamba])
    assert "| MambaForecaster | 0.3500 | 0.3000 | 90.0 % | 91.0 % | 3 |" in means
    assert "| GRU-D | 0.4500 | 0.4000 | – | – | 3 |" in means
    assert means.index("MambaForecaster |") < means.index("GRU-D")
    assert by_code.splitlines()[2:] == [
        "| HR | 900 | 0.300 | 0.400 | 91.0 % |",
        "| Lactate | 300 | 0.400 | 0.500 | 91.0 % |",
    ]


def test_there_is_no_table_without_results():
    assert value_tables([]) == []
