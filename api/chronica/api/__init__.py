"""The HTTP API: appends in, context windows out."""

from chronica.api._app import create_app
from chronica.api._server import ApiServer, ApiStartError, check_address, check_protected
from chronica.api._workers import create_worker_app, serve_with_workers

__all__ = [
    "ApiServer",
    "ApiStartError",
    "check_address",
    "check_protected",
    "create_app",
    "create_worker_app",
    "serve_with_workers",
]
