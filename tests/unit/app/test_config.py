"""Settings come from the environment, and a wrong one is named."""

import pytest

from app.config import BadSettings, settings_from_env

GOOD = {
    "REDPACKET_REDIS_URL": "redis://127.0.0.1:6379/0",
    "REDPACKET_MYSQL_URL": "mysql://user:password@127.0.0.1:3306/redpacket",
    "REDPACKET_SECRET": "s" * 32,
    "REDPACKET_JWT_SECRET": "j" * 32,
}


def test_the_smallest_environment_gives_the_defaults() -> None:
    settings = settings_from_env(GOOD)

    assert (settings.host, settings.port, settings.durability) == ("127.0.0.1", 8000, "fsync")
    assert settings.amqp_url is None
    assert settings.tokens.algorithm == "HS256"


@pytest.mark.parametrize("name", list(GOOD))
def test_a_missing_setting_is_named(name: str) -> None:
    environment = {key: value for key, value in GOOD.items() if key != name}

    with pytest.raises(BadSettings, match=name):
        settings_from_env(environment)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("REDPACKET_REDIS_URL", "http://127.0.0.1"),
        ("REDPACKET_MYSQL_URL", "postgres://127.0.0.1/x"),
        ("REDPACKET_AMQP_URL", "127.0.0.1"),
        ("REDPACKET_SECRET", "short"),
        ("REDPACKET_JWT_SECRET", "short"),
        ("REDPACKET_JWT_ALGORITHM", "none"),
        ("REDPACKET_PORT", "80a"),
        ("REDPACKET_PORT", "65536"),
        ("REDPACKET_PARTITIONS", "0"),
        ("REDPACKET_DURABILITY", "hope"),
        ("REDPACKET_MYSQL_CONNECTIONS", "-1"),
    ],
)
def test_a_wrong_setting_is_named(name: str, value: str) -> None:
    with pytest.raises(BadSettings, match=name):
        settings_from_env(GOOD | {name: value})


def test_a_public_key_algorithm_asks_for_a_readable_file() -> None:
    environment = GOOD | {
        "REDPACKET_JWT_ALGORITHM": "EdDSA",
        "REDPACKET_JWT_PUBLIC_KEY_FILE": "/nonexistent/key.pem",
    }

    with pytest.raises(BadSettings, match="JWT_PUBLIC_KEY_FILE"):
        settings_from_env(environment)


def test_secrets_do_not_show_when_settings_are_printed() -> None:
    printed = repr(settings_from_env(GOOD))

    assert "ssss" not in printed
    assert "jjjj" not in printed
