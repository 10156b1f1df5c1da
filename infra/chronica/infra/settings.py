"""Every setting of the server, in one place: code, then CHRONICA_*, then the file CHRONICA_CONFIG.

This is the lowest layer but for the form of API keys, which are a setting too.
"""

from __future__ import annotations

import ipaddress
import os
import ssl
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import (
    BaseSettings,
    JsonConfigSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from chronica.infra.keys import Grant, parse_keys

__all__ = ["Settings"]


class Settings(BaseSettings):
    """The settings of one process.

    Precedence: keyword arguments, then environment variables ``CHRONICA_<NAME>``, then the TOML
    or JSON file that ``CHRONICA_CONFIG`` names.

    Raises:
        pydantic.ValidationError: a value is not of its type; the message names the field.
        FileNotFoundError: ``CHRONICA_CONFIG`` names a file that is not there.
    """

    model_config = SettingsConfigDict(env_prefix="CHRONICA_", extra="forbid")

    data_dir: Path = Field(Path(".chronica"), description="Where the embedded servers keep data.")
    host: str = Field("127.0.0.1", description="Address the API binds.")
    port: int = Field(8800, ge=0, le=65535, description="Port the API binds; 0 takes a free one.")

    kafka_bootstrap_servers: str | None = Field(
        None, description="host:port,… of a Kafka cluster; without it `up` starts an embedded one."
    )
    kafka_security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    kafka_sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "PLAIN"
    kafka_sasl_username: str | None = None
    kafka_sasl_password: SecretStr | None = None
    kafka_ssl_cafile: Path | None = None

    postgres_dsn: SecretStr | None = Field(
        None, description="Connection string; without it `up` starts an embedded Postgres."
    )

    topic_prefix: str = Field("chronica", pattern=r"^[a-zA-Z0-9._-]{1,100}$")
    partitions: int = Field(
        8,
        ge=1,
        le=1000,
        description="Partitions of each topic, pinned at the first start; bounds the recorders "
        "for the log's life.",
    )
    tenant: str = Field("local", min_length=1, max_length=1024)

    api_keys: SecretStr | None = Field(
        None, description="key:tenant:scope+scope,… besides the keys that are stored."
    )
    workers: int = Field(1, ge=1, le=64, description="Processes that `chronica api` serves with.")
    requests_max: int = Field(
        1000, ge=1, description="Requests that one API process answers at once; more get 503."
    )
    streams_max: int = Field(
        2000, ge=1, description="Streams that one API process has open; more get 503."
    )
    body_budget_bytes: int = Field(
        256 * 1024 * 1024,
        ge=24 * 1024 * 1024,
        description="Request bodies that one API process has in hand; more wait, then get 503.",
    )

    @field_validator("api_keys")
    @classmethod
    def _check_api_keys(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            parse_keys(value.get_secret_value())
        return value

    def grants(self) -> dict[bytes, Grant]:
        """Return what the keys in ``api_keys`` grant, by their digests."""
        return {} if self.api_keys is None else parse_keys(self.api_keys.get_secret_value())

    def environment(self) -> dict[str, str]:
        """Return the variables that give another process what was set here, secrets included."""
        values = {name: getattr(self, name) for name in self.model_fields_set}
        return {
            f"CHRONICA_{name.upper()}": str(
                value.get_secret_value() if isinstance(value, SecretStr) else value
            )
            for name, value in values.items()
            if value is not None
        }

    @property
    def is_loopback(self) -> bool:
        """Whether the API is bound where only this machine reaches it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def acta_topic(self) -> str:
        """The ingress topic of acta."""
        return f"{self.topic_prefix}.acta"

    def kafka_client(self) -> dict[str, Any]:
        """Return the keyword arguments that every aiokafka client of this process takes."""
        options: dict[str, Any] = {
            "bootstrap_servers": self.kafka_bootstrap_servers,
            "security_protocol": self.kafka_security_protocol,
        }
        if self.kafka_security_protocol.startswith("SASL"):
            options["sasl_mechanism"] = self.kafka_sasl_mechanism
            options["sasl_plain_username"] = self.kafka_sasl_username
            password = self.kafka_sasl_password
            options["sasl_plain_password"] = password.get_secret_value() if password else None
        if self.kafka_security_protocol.endswith("SSL"):
            cafile = str(self.kafka_ssl_cafile) if self.kafka_ssl_cafile else None
            options["ssl_context"] = ssl.create_default_context(cafile=cafile)
        return options

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003  (pydantic's signature)
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Put the file last, chosen by its ending."""
        sources: tuple[PydanticBaseSettingsSource, ...] = (init_settings, env_settings)
        named = os.environ.get("CHRONICA_CONFIG")
        if named is None:
            return sources
        path = Path(named)
        if not path.is_file():
            raise FileNotFoundError(f"CHRONICA_CONFIG names {path}, which is not a file.")
        if path.suffix == ".json":
            return (*sources, JsonConfigSettingsSource(settings_cls, path))
        return (*sources, TomlConfigSettingsSource(settings_cls, path))
