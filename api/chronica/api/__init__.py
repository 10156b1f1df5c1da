"""The HTTP API: appends in, context windows out."""

from chronica.api._app import create_app
from chronica.api._server import ApiServer, ApiStartError, check_address

__all__ = ["ApiServer", "ApiStartError", "check_address", "create_app"]
