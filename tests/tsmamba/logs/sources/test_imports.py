def test_sources_and_checkpoints_start_without_heavy_packages(run_python):
    code = (
        "import sys, tsmamba.logs.sources, tsmamba.logs.checkpoint\n"
        "sys.exit(', '.join({'torch', 'polars', 'numpy', 'sklearn'} & set(sys.modules)) or 0)"
    )
    assert run_python("-c", code).stderr == ""
