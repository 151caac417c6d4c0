"""Keys and client secrets: whose they are, and for how long."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.ports import InputError
from server.keys import MOST_SECRETS, Keys, Visitor, read_keys

KEY, OTHER = "k" * 32, "o" * 32


def test_without_keys_everybody_may_come_in() -> None:
    keys = Keys()
    assert not keys.required
    assert keys.visitor("anything") == keys.visitor("") == Visitor()


def test_with_keys_only_their_holders_may_and_each_is_somebody_else() -> None:
    keys = Keys([KEY, OTHER])
    first, second = keys.visitor(KEY), keys.visitor(OTHER)
    assert first is not None
    assert second is not None
    assert first.owner != second.owner
    assert keys.visitor("") is keys.visitor(KEY[:-1]) is keys.visitor(KEY + "k") is None


def test_a_secret_opens_the_door_for_its_owner_until_it_expires() -> None:
    now = 1_000.0
    keys = Keys([KEY], now=lambda: now)
    owner = keys.visitor(KEY)
    assert owner is not None
    secret = keys.new_secret(owner, 60, {"instructions": "Be brief."})
    assert secret.value.startswith("ek_")
    assert keys.visitor(secret.value) == Visitor(owner.owner, {"instructions": "Be brief."})
    now = float(secret.expires_at)
    assert keys.visitor(secret.value) is None


def test_a_secret_lasts_no_longer_than_two_hours_and_no_shorter_than_ten_seconds() -> None:
    keys = Keys(now=lambda: 1_000.0)
    assert keys.new_secret(Visitor(), 10**9, {}).expires_at == 1_000 + 7_200
    assert keys.new_secret(Visitor(), -5, {}).expires_at == 1_000 + 10


def test_secrets_do_not_pile_up() -> None:
    keys = Keys([KEY])
    first = keys.new_secret(Visitor(b"x"), 600, {})
    for _ in range(MOST_SECRETS):
        last = keys.new_secret(Visitor(b"x"), 600, {})
    assert keys.visitor(first.value) is None
    assert keys.visitor(last.value) is not None


def test_a_key_is_not_kept_or_shown() -> None:
    keys = Keys([KEY])
    assert KEY not in repr(vars(keys)) + repr(keys.visitor(KEY))


def test_keys_come_from_a_file_and_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"# the phone\n{OTHER}\n\n")
    keys = read_keys(file, {"ECHOIC_API_KEY": KEY})
    assert None not in (keys.visitor(KEY), keys.visitor(OTHER))
    assert not read_keys(None, {}).required


@pytest.mark.parametrize("text", ["", "# none\n", "short\n", "with spaces in the middle\n"])
def test_a_file_without_a_usable_key_is_refused_and_no_key_is_told(text: str, tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(text)
    with pytest.raises(InputError, match="keys: ") as told:
        read_keys(file, {})
    assert {"short", "middle"}.isdisjoint(str(told.value).split())


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read .*nowhere"):
        read_keys(tmp_path / "nowhere", {})
