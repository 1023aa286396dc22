"""The HTTP edge: the only place that knows Sanic."""
