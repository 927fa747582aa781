"""The embedded database read by the unmodified posteriordb client, from disk and from "GitHub"."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import requests
from posteriordb import PosteriorDatabase

from posteriordb_cases import EMBEDDED, list_cases, load_case
from tests.posteriordb_cases.conftest import NAME


@pytest.fixture(scope="module")
def client() -> PosteriorDatabase:
    return PosteriorDatabase(str(EMBEDDED))


def test_client_sees_every_case_model_and_data_set(client: PosteriorDatabase) -> None:
    assert sorted(client.posterior_names()) == list_cases(EMBEDDED)
    assert {p.model.name for p in client.posteriors()} == set(client.model_names())
    assert {p.data.name for p in client.posteriors()} == set(client.dataset_names())


@pytest.mark.parametrize("name", list_cases(EMBEDDED))
def test_client_agrees_with_the_loader(client: PosteriorDatabase, name: str) -> None:
    posterior, case = client.posterior(name), load_case(name, EMBEDDED)
    assert posterior.model.code("stan") == case.stan_code
    assert posterior.model.information["title"] == case.model_info["title"]
    values = posterior.data.values()
    assert set(values) == set(case.data)
    for key, value in values.items():
        np.testing.assert_array_equal(value, case.data[key])
    assert posterior.information["dimensions"] == case.dimensions
    assert posterior.information["exact"] == case.exact


@pytest.mark.parametrize("name", list_cases(EMBEDDED))
def test_info_files_have_the_fields_of_posteriordb(client: PosteriorDatabase, name: str) -> None:
    posterior = client.posterior(name)
    assert posterior.posterior_info["name"] == name
    assert name == f"{posterior.data.name}-{posterior.model.name}"
    for info in (posterior.information, posterior.model.information, posterior.data.information):
        assert {"added_by", "added_date", "keywords"} <= set(info)
    bibliography = (EMBEDDED / "bibliography" / "references.bib").read_text()
    for key in posterior.model.information["references"] + posterior.data.information["references"]:
        assert f"{{{key}," in bibliography


def test_client_reads_draws_written_by_us(with_draws: Path, draws: dict) -> None:
    posterior = PosteriorDatabase(str(with_draws / "posterior_database")).posterior(NAME)
    chains = posterior.reference_draws()
    assert len(chains) == 4
    np.testing.assert_allclose(chains[2]["theta[3]"], draws["theta"][2, :, 2], rtol=1e-7)
    assert posterior.reference_draws_info()["name"] == NAME


class FakeGitHub:
    """Answers the client's requests from a folder, in the format of GitHub's contents API."""

    def __init__(self, root: Path) -> None:
        self.root, self.asked = root, []

    def get(self, url: str, **_: Any) -> requests.Response:
        self.asked.append(url)
        response = requests.Response()
        response.status_code = 200
        path = self.root / url.split("/contents/")[-1].split("?")[0].removeprefix("raw:")
        content = self._listing(path) if path.is_dir() else path.read_bytes()
        response.raw = io.BytesIO(content)
        return response

    def _listing(self, folder: Path) -> bytes:
        entries = []
        for path in sorted(folder.iterdir()):
            relative = path.relative_to(self.root).as_posix()
            entry = {"path": relative, "type": "dir" if path.is_dir() else "file", "sha": "0"}
            entry["_links"] = {"self": f"https://api/contents/{relative}?ref=master"}
            entries.append(entry | {"download_url": f"raw:{relative}"})
        return json.dumps(entries).encode()


@pytest.fixture
def github(with_draws: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeGitHub:
    fake = FakeGitHub(with_draws)
    monkeypatch.setattr(requests, "get", fake.get)
    monkeypatch.setattr(
        "posteriordb_cases.database.user_cache_path", lambda name: tmp_path / "cache"
    )
    return fake


def test_github_downloads_one_case(github: FakeGitHub, tmp_path: Path, draws, capsys) -> None:
    case = load_case("eight_schools", "github")
    assert case.name == NAME and case.database.is_relative_to(tmp_path / "cache")
    assert case.stan_code == load_case(NAME, EMBEDDED).stan_code
    assert case.data["J"] == 8 and case.reference_info["added_by"] == "test"
    posterior = case.reference_draws()["posterior"]
    np.testing.assert_allclose(posterior["mu"], draws["mu"], rtol=1e-7)
    assert not any("cauchy" in url for url in github.asked if url.startswith("raw:"))
    assert capsys.readouterr().out == ""


def test_github_by_environment_variable(github: FakeGitHub, monkeypatch) -> None:
    monkeypatch.setenv("POSTERIORDB_PATH", "github")
    assert list_cases() == list_cases(EMBEDDED)
    with pytest.raises(ValueError, match="no case 'eight_school' among the 7 of GitHub"):
        load_case("eight_school")


def test_github_offline_says_what_to_do(github: FakeGitHub, monkeypatch, capsys) -> None:
    def offline(*_: Any, **__: Any) -> None:
        raise requests.ConnectionError("Name or service not known")

    monkeypatch.setattr(requests, "get", offline)
    with pytest.raises(ConnectionError, match=r"service not known.*clone the repository"):
        load_case(NAME, "github")
    assert capsys.readouterr().out == ""


def test_github_refusing_is_a_connection_error(github: FakeGitHub, monkeypatch) -> None:
    def limited(*_: Any, **__: Any) -> requests.Response:
        response = requests.Response()
        response.status_code, response.raw = 403, io.BytesIO(b'{"message": "rate limit exceeded"}')
        return response

    monkeypatch.setattr(requests, "get", limited)
    with pytest.raises(ConnectionError, match="GITHUB_PAT"):
        list_cases("github")


@pytest.mark.parametrize(
    "lost", ["draws/draws", "draws/info", "data/data", "models", "posteriors/"]
)
def test_half_downloaded_case_is_not_a_case(github: FakeGitHub, monkeypatch, capsys, lost) -> None:
    real = github.get

    def without(url: str, **options: Any) -> requests.Response:
        if url.startswith("raw:") and lost in url:
            raise requests.ConnectionError("reset")
        return real(url, **options)

    monkeypatch.setattr(requests, "get", without)
    with pytest.raises(ConnectionError, match=r"not downloaded: .*clone the repository"):
        load_case(NAME, "github")
    assert capsys.readouterr().out == ""
