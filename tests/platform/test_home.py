"""The home directory and its configuration file."""

import stat

import pytest

from tentalis.env import EnvironmentVariableError
from tentalis.platform.config import Config, Secrets, load_config, load_or_make_config, read_settings
from tentalis.platform.errors import HomeError
from tentalis.platform.home import Home


@pytest.fixture
def made(home: Home) -> Config:
    home.prepare()
    return load_or_make_config(home)[0]


def test_the_password_file_is_made_for_its_owner_alone(home: Home, made: Config) -> None:
    assert stat.S_IMODE(home.config_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(home.root.stat().st_mode) == 0o700


def test_the_second_start_reads_the_passwords_of_the_first(home: Home, made: Config) -> None:
    again, is_new = load_or_make_config(home)
    assert not is_new
    assert again == made


def test_two_installations_share_no_password() -> None:
    first, second = Secrets.make(), Secrets.make()
    assert not set(vars(first).values()) & set(vars(second).values())


def test_a_password_file_others_can_read_is_refused_by_its_mode(home: Home, made: Config) -> None:
    home.config_file.chmod(0o644)
    with pytest.raises(HomeError, match=r"config\.toml .* mode 0600, found 0644"):
        load_config(home)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("secrets = [", r"config\.toml must be TOML"),
        ("[settings]\nweb_port = 1", r"needs a section \[secrets\]"),
        ("[secrets]\nsecret_key = 'x'", r"secrets\.secret_key must be text of 8 characters"),
        ("[surprise]\n", r"found also surprise"),
    ],
)
def test_a_damaged_password_file_is_refused_with_its_name(home: Home, made: Config, text: str, complaint: str) -> None:
    home.config_file.write_text(text)
    with pytest.raises(HomeError, match=complaint):
        load_config(home)


def test_an_unknown_setting_in_the_file_is_refused_by_name(home: Home, made: Config) -> None:
    Config(made.secrets, {"wep_port": "1"}).write(home)
    with pytest.raises(HomeError, match=r"settings\.wep_port is unknown"):
        load_config(home)


def test_the_environment_wins_over_the_file_and_the_file_over_the_default(home: Home, made: Config) -> None:
    config = Config(made.secrets, {"web_port": "18001", "engine_port": "18002"})
    settings = read_settings(home, config, {"TENTALIS_WEB_PORT": "18003"})
    assert (settings["WEB_PORT"], settings["ENGINE_PORT"], settings["REDIS_PORT"]) == (18003, 18002, 63790)


def test_an_unreadable_setting_is_refused_by_name(home: Home, made: Config) -> None:
    with pytest.raises(EnvironmentVariableError, match="TENTALIS_WEB_PORT must be a whole number"):
        read_settings(home, made, {"TENTALIS_WEB_PORT": "eighty"})


def test_lost_passwords_beside_existing_data_stop_the_start(home: Home) -> None:
    home.prepare()
    home.postgres_data.mkdir()
    with pytest.raises(HomeError, match="needs its password"):
        load_or_make_config(home)
    assert not home.config_file.exists()


def test_a_home_that_cannot_be_written_is_refused_by_path(home: Home) -> None:
    home.root.parent.mkdir(exist_ok=True)
    home.root.write_text("a file stands here")
    with pytest.raises(HomeError, match=f"{home.root}.* must be a directory we can write to"):
        home.prepare()
