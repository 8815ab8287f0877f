"""An exporter that needs a module which is not installed."""

import spansieve_no_such_module  # noqa: F401
