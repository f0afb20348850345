"""The service of ``tsmamba serve``: one model over HTTP, with a state for each series.

`tsmamba.serving.app.application.create_app` makes the application. Its modules need FastAPI and the
client of Prometheus, which the extra ``serve`` brings.
"""
