"""Settings: code, then the environment, then the file; what is wrong is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from chronica.infra.settings import Settings

ROOT = Path(__file__).parents[2]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "chronica.toml"
    monkeypatch.setenv("CHRONICA_CONFIG", str(path))
    return path


def test_code_comes_before_the_environment_and_that_before_the_file(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text('port = 1\nhost = "::1"\ntenant = "file"\n')
    monkeypatch.setenv("CHRONICA_PORT", "2")
    monkeypatch.setenv("CHRONICA_HOST", "localhost")
    settings = Settings(port=3)
    assert (settings.port, settings.host, settings.tenant) == (3, "localhost", "file")


def test_a_json_file_does_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "chronica.json"
    path.write_text('{"partitions": 3}')
    monkeypatch.setenv("CHRONICA_CONFIG", str(path))
    assert Settings().partitions == 3


def test_a_name_that_is_no_setting_is_refused_in_the_file_and_in_code(file: Path) -> None:
    file.write_text("prot = 9000\n")
    with pytest.raises(ValidationError, match="prot"):
        Settings()
    file.write_text("")
    with pytest.raises(ValidationError, match="prot"):
        Settings(prot=9000)  # type: ignore[call-arg]


def test_what_else_is_in_the_environment_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHRONICA_LOG_LEVEL", "DEBUG")
    monkeypatch.setenv("CHRONICA_NO_SUCH_SETTING", "1")
    assert Settings().port == 8800


def test_a_config_file_that_is_not_there_is_said_to_be_missing(file: Path) -> None:
    with pytest.raises(FileNotFoundError, match=str(file)):
        Settings()


def test_secrets_are_not_shown() -> None:
    settings = Settings(postgres_dsn="postgresql://u:hunter2@h/d", kafka_sasl_password="hunter2")
    assert "hunter2" not in repr(settings)


def test_security_reaches_every_kafka_client() -> None:
    settings = Settings(
        kafka_bootstrap_servers="k:9093",
        kafka_security_protocol="SASL_SSL",
        kafka_sasl_mechanism="SCRAM-SHA-512",
        kafka_sasl_username="u",
        kafka_sasl_password="p",
    )
    client = settings.kafka_client()
    assert client.pop("ssl_context") is not None
    assert client == {
        "bootstrap_servers": "k:9093",
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "u",
        "sasl_plain_password": "p",
    }


def test_every_setting_is_in_the_reference() -> None:
    reference = (ROOT / "docs/settings.md").read_text()
    missing = [
        name for name in Settings.model_fields if f"`CHRONICA_{name.upper()}`" not in reference
    ]
    assert not missing, "add them to docs/settings.md"
