"""The HTTP API: appends in, context windows out."""

from chronica.api._app import create_app
from chronica.api._server import ApiServer, ApiStartError

__all__ = ["ApiServer", "ApiStartError", "create_app"]
