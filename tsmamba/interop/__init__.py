"""Networks of tsmamba as models of other libraries; each module here needs its own extra."""
