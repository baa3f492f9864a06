"""Archives as a researcher could make them: what is no job is refused before anything of it is parsed."""

import io
import json
import tracemalloc
import zipfile
from collections.abc import Iterable
from typing import Any

import pytest

from fedannot.custom.approval.configuration import JobRefusedError
from fedannot.custom.approval.submission import check_meta, read_app, read_job

SERVER = {"format_version": 2, "workflows": [{"path": "a.B", "args": {"settings": "{settings}"}}], "settings": {"x": 1}}
CLIENT = {"format_version": 2, "executors": [], "settings": {"x": 1}}
META = {"name": "mine", "min_clients": 1, "deploy_map": {"app": ["server", "a"]}, "fedannot": "0.1.0"}
CONFIGS = {
    "config/config_fed_server.json": json.dumps(SERVER),
    "config/config_fed_client.json": json.dumps(CLIENT),
}


def archive(entries: Iterable[tuple[str, str | bytes]]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in entries:
            file.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return stream.getvalue()


def app(**changed: str | bytes | None) -> bytes:
    entries = dict(CONFIGS) | {name.replace("__", "/", 1).replace("__", "."): text for name, text in changed.items()}
    return archive((name, text) for name, text in entries.items() if text is not None)


def job(meta: Any = META, files: dict[str, str | bytes] | None = None) -> bytes:
    entries = {"mine/": "", "mine/app/": "", "mine/meta.json": meta if isinstance(meta, str) else json.dumps(meta)}
    entries |= {f"mine/app/{name}": text for name, text in CONFIGS.items()}
    return archive((entries | (files or {})).items())


def test_an_app_is_read_and_its_settings_are_apart() -> None:
    result = read_app(archive([("config/", ""), *CONFIGS.items(), (".__nvfl_sig.json", "{}")]))
    assert result.settings == {"x": 1}
    assert result.server == {key: value for key, value in SERVER.items() if key != "settings"}
    assert result.classes == ("a.B",)
    assert read_job(job(), "mine") == result


def test_the_digest_is_of_the_configurations_alone() -> None:
    other = {"config/config_fed_server.json": json.dumps(SERVER | {"settings": {"x": 2}})}
    other["config/config_fed_client.json"] = json.dumps(dict(reversed((CLIENT | {"settings": {"x": 2}}).items())))
    assert read_app(archive(other.items())).digest == read_app(app()).digest
    changed = json.dumps(CLIENT | {"num_passes": 2})
    assert read_app(app(config__config_fed_client__json=changed)).digest != read_app(app()).digest


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "cannot be read"),
        (b"PK\x03\x04 nothing", "cannot be read"),
        (archive([]), "lacks 'config/config_fed_server.json'"),
        (app(config__config_fed_client__json=None), "lacks 'config/config_fed_client.json'"),
        # HOCON includes files and addresses while it is parsed: not even looked at.
        (app(config__config_fed_client__conf='x = include url("http://a")'), "config_fed_client.conf'; expected"),
        (app(config__config_fed_client__yml="a: 1"), "config_fed_client.yml'; expected"),
        (app(config__environment__json='{"APP_CKPT_DIR": "/"}'), "environment.json'; expected"),
        (app(custom__mine__py="import os"), "custom/mine.py'; expected"),
        (app(config__resources__json="{}"), "resources.json'; expected"),
        (app(config__config_fed_client__json="{}"), "expected keys and values with a block 'settings'"),
        (app(config__config_fed_client__json='{"settings": {"x": 2}}'), "The settings of server and sites differ"),
        (
            app(config__config_fed_client__json='{"settings": {}, "settings": {"x": 1}}'),
            "found the key 'settings' twice",
        ),
        (app(config__config_fed_client__json='{"settings": {"x": NaN}}'), "found NaN"),
        (app(config__config_fed_client__json='{"settings": {"x": 1e999}}'), "found the number '1e999'"),
        (app(config__config_fed_client__json='include file("/etc/passwd")'), "is not JSON"),
        (app(config__config_fed_client__json="[" * 10**5), "config_fed_client.json"),
        (app(config__config_fed_client__json='{"a":' * 60 + "1" + "}" * 60), "config_fed_client.json"),
        (app(config__config_fed_client__json=b"\xff\xfe"), "is not JSON"),
        (app(config__config_fed_client__json=" " * (256 * 1024 + 1)), "has more than 256 KiB"),
        (archive([*CONFIGS.items(), ("../../x", "y")]), r"'../../x'; expected"),
        (archive([*CONFIGS.items(), ("/etc/x", "y")]), "'/etc/x'; expected"),
        (archive([*CONFIGS.items(), ("a/../../x/", "")]), "the folder 'a/../../x'"),
        # NVFlare would take it for a job with code, whose classes it does not look at.
        (archive([*CONFIGS.items(), ("custom/", "")]), "the folder 'custom'"),
        (archive([(f"f{number}", "") for number in range(40)]), "holds 40 files"),
    ],
)
def test_what_is_no_app_is_refused(content: bytes, said: str) -> None:
    with pytest.raises(JobRefusedError) as caught:
        read_app(content)
    assert said in str(caught.value)


def test_a_file_that_stands_twice_is_refused() -> None:
    """Python reads the last of them, other programs the first."""
    with pytest.warns(UserWarning, match="Duplicate name"):
        twice = archive(
            [*CONFIGS.items(), ("config/config_fed_client.json", '{"settings": {"x": 1}, "components": []}')]
        )
    with pytest.raises(JobRefusedError, match="twice"):
        read_app(twice)


def test_an_archive_that_claims_a_small_size_is_not_unpacked_beyond_the_bound() -> None:
    bomb = bytearray(archive([("config/config_fed_client.json", b" " * 50_000_000), *CONFIGS.items()]))
    assert len(bomb) < 200_000
    with pytest.raises(JobRefusedError):
        read_app(bytes(bomb))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (job(meta=META | {"scope": "swarm"}), "meta.json: found 'scope'"),
        (job(meta=META | {"launcher_spec": {}}), "meta.json: found 'launcher_spec'"),
        (job(meta=META | {"resource_spec": {"a": {"num_of_gpus": 8}}}), "meta.json: found 'resource_spec'"),
        (job(meta=META | {"deploy_map": {"app": ["server"], "other": ["a"]}}), "expected one app"),
        (job(meta=META | {"deploy_map": {"../app": ["server"]}}), "expected one app"),
        # NVFlare's scheduler would stumble over them whenever it looks for a job.
        (job(meta=META | {"min_clients": "2"}), "expected a whole number"),
        (job(meta=META | {"min_clients": True}), "expected a whole number"),
        (job(meta=META | {"min_clients": 0}), "expected a whole number"),
        (job(meta=META | {"name": 5}), "expected a name"),
        (job(meta=META | {"mandatory_clients": {"a": 1}}), "names of sites in mandatory_clients"),
        (job(meta=META | {"deploy_map": {"app": {"sites": ["a"]}}}), "expected one app"),
        (job(meta=META | {"deploy_map": {"app": ["../a"]}}), "expected one app"),
        (job(meta=[1]), "expected keys and values"),
        (job(meta='{"name": "a", "name": "b"}'), "found the key 'name' twice"),
        (job(files={"mine/app/custom/mine.py": "x"}), "'app/custom/mine.py'; expected"),
        (job(files={"mine/other/x": "x"}), "'other/x'; expected meta.json and the app 'app' alone"),
        (job(files={"mine/meta.conf": "x"}), "'meta.conf'; expected"),
        (job(files={"elsewhere/x": "x"}), "'elsewhere/x' outside its folder"),
        (archive([]), "has no meta.json"),
    ],
)
def test_what_is_no_job_is_refused(content: bytes, said: str) -> None:
    with pytest.raises(JobRefusedError) as caught:
        read_job(content, "mine")
    assert said in str(caught.value)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_what_unpacks_beyond_what_is_asked_for_is_not_unpacked(method: int) -> None:
    """Some bytes of it would become gigabytes in the parent process."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as file:
        file.writestr("config/config_fed_client.json", b" " * 100_000_000)
    tracemalloc.start()
    with pytest.raises(JobRefusedError, match="packed by another method"):
        read_app(stream.getvalue())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5_000_000


def test_a_large_archive_is_not_opened() -> None:
    with pytest.raises(JobRefusedError, match="has more than 1024 KiB"):
        read_app(b"PK" + bytes(2_000_000))


@pytest.mark.parametrize("key", ["scope", "launcher_spec", "resource_spec", "byoc"])
def test_what_a_server_may_not_say_of_a_job(key: str) -> None:
    of_all = {"deploy_map": {"app": ["@ALL"]}}
    assert check_meta(of_all | {"job_id": "x", "scope": "", "resource_spec": {}, "byoc": False}) is None
    with pytest.raises(JobRefusedError, match=f"sets {key}, which is the site's to decide"):
        check_meta(of_all | {key: {"a": 1}})


def test_whose_job_it_is() -> None:
    """What the sites' minimum is compared with: distinct names without the server's."""
    assert read_job(job(meta=META | {"deploy_map": {"app": ["server", "a", "b", "a"]}}), "mine").sites == {"a", "b"}
    assert check_meta({"deploy_map": {"one": ["server", "a"], "two": ["b"]}}) == {"a", "b"}
    assert check_meta({"deploy_map": {"app": ["@all"]}}) is None
    assert read_app(app()).sites is None


@pytest.mark.parametrize("deploy_map", [None, {}, [], {"app": "@ALL"}, {"app": [{"sites": ["a"]}]}, {"app": [1]}])
def test_a_server_that_does_not_say_whose_job_it_is(deploy_map: Any) -> None:
    with pytest.raises(JobRefusedError, match="does not say which sites take part"):
        check_meta({"deploy_map": deploy_map})


def test_names_are_shown_without_control_characters() -> None:
    with pytest.raises(JobRefusedError) as caught:
        read_app(archive([*CONFIGS.items(), ("\x1b]0;title\x07", "y"), ("b\u202egnp.exe", "y")]))
    assert str(caught.value).isprintable()
