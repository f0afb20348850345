"""From a fitted model to a service: one core, `tsmamba.serving.frames`, behind every edge."""
