"""Finding and preparing Stan: order of preference, wheels, and what is said when it cannot be."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from stan_models import StanProgram, ToolchainError
from stan_models.__main__ import main
from stan_models.library import build_with_bridgestan
from stan_models.toolchain import (
    CACHE_VARIABLE,
    cache_directory,
    find_toolchain,
    present_toolchain,
    use_wheel,
)
from stan_models.toolchain.assemble import RECORD, assembled, toolchain_key
from stan_models.toolchain.cache import digest, only_builder, writable
from stan_models.toolchain.compiler import require_compiler
from stan_models.toolchain.locate import import_cmdstanpy
from stan_models.toolchain.progress import step
from stan_models.toolchain.wheel import Wheel, adopt, chosen, unpack

NORMAL = "parameters { real x; } model { x ~ normal(0, 1); }"


@pytest.fixture
def empty_cache(tmp_path, monkeypatch) -> Path:
    """A cache with nothing in it, on a machine without CmdStan."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CMDSTAN", raising=False)
    return tmp_path / "cache"


@pytest.fixture
def no_registry(tmp_path, monkeypatch) -> None:
    """pip finds no package anywhere."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))


def small_wheel(folder: Path, version: str = "4.13.0") -> Path:
    """An httpstan wheel in miniature: its stanc is a script that knows its version."""
    path = folder / f"httpstan-{version}-cp311-cp311-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("httpstan/stanc", "#!/bin/sh\necho 'stanc3 v2.35.0 (Unix)'\n")
        archive.writestr("httpstan/include/stan/version.hpp", "// 2.35\n")
        archive.writestr("httpstan/include/pybind11/pybind11.h", "")
        archive.writestr("httpstan/lib/libtbb.so", "")
        archive.writestr("httpstan/views.py", "")
    return path


def official(folder: Path, version: str = "2.36.0") -> Path:
    path = folder / f"cmdstan-{version}"
    (path / "bin").mkdir(parents=True)
    (path / "makefile").write_text(f"CMDSTAN_VERSION := {version}\n")
    return path


def test_cache_is_the_users_or_the_one_asked_for(tmp_path, monkeypatch):
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "here"))
    assert cache_directory() == tmp_path / "here"
    monkeypatch.delenv(CACHE_VARIABLE)
    assert cache_directory().name == "stan_models"


def test_cache_with_a_space_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "my cache"))
    with pytest.raises(ToolchainError, match=r"contains a space.*STAN_MODELS_CACHE"):
        cache_directory()


def test_cache_that_cannot_be_written(tmp_path, monkeypatch, empty_cache):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "file" / "cache"))
    with pytest.raises(ToolchainError, match=r"file/cache is not writable.*STAN_MODELS_CACHE"):
        find_toolchain()
    with pytest.raises(ToolchainError, match="not writable"):
        use_wheel(small_wheel(tmp_path))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_cache_without_permission(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(ToolchainError, match="not writable"):
        writable(tmp_path)


def test_missing_compiler_is_one_sentence(empty_cache, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolchainError, match=r"needs g\+\+ and make, not found; install") as error:
        find_toolchain()
    assert "\n" not in str(error.value) and not empty_cache.exists()


def test_broken_compiler(empty_cache, tmp_path, monkeypatch):
    compiler = tmp_path / "c++-broken"
    compiler.write_text("#!/bin/sh\necho no licence >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    with pytest.raises(ToolchainError, match="--version` failed: no licence; set CXX"):
        require_compiler()


@pytest.mark.parametrize("compiler", [True, False])
def test_without_cmdstanpy_all_that_is_missing_is_named(monkeypatch, tmp_path, compiler) -> None:
    monkeypatch.setitem(sys.modules, "cmdstanpy", None)
    if not compiler:
        monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ImportError, match=r"pip install 'trusted-posteriors\[stan\]'") as error:
        import_cmdstanpy()
    assert ("g++ and make, not found; install: " in str(error.value)) != compiler


def test_no_wheel_to_be_had(empty_cache, no_registry):
    with pytest.raises(ToolchainError, match=r"no httpstan wheel could be fetched.*--wheel PATH"):
        find_toolchain()
    assert chosen(empty_cache) is None and list(empty_cache.glob("wheel-*")) == []


def test_wrong_wheels_are_refused(empty_cache, tmp_path):
    with pytest.raises(ToolchainError, match="no wheel at"):
        use_wheel(tmp_path / "httpstan-9-none.whl")
    whole = small_wheel(tmp_path)
    cut = tmp_path / "httpstan-4.14.0-cp311-cp311-any.whl"
    cut.write_bytes(whole.read_bytes()[:-100])
    other = tmp_path / "other-1.0-py3-none-any.whl"
    other.write_bytes(whole.read_bytes())
    for path in (cut, other):
        with pytest.raises(ToolchainError, match="not a complete httpstan wheel"):
            use_wheel(path)
    assert chosen(empty_cache) is None


def test_wheel_given_is_used_and_unpacked(empty_cache, tmp_path):
    use_wheel(small_wheel(tmp_path))
    first = chosen(empty_cache)
    assert first is not None and first.version == "4.13.0"
    assert adopt(empty_cache, None) == first  # nothing is fetched where there is one
    unpack(first, tmp_path / "out")
    found = {str(p.relative_to(tmp_path / "out")) for p in (tmp_path / "out").rglob("*.*")}
    assert found == {"include/stan/version.hpp", "lib/libtbb.so"}
    assert os.access(tmp_path / "out" / "bin" / "stanc", os.X_OK)
    use_wheel(small_wheel(tmp_path, "4.17.0"))
    assert chosen(empty_cache).version == "4.17.0"


def test_a_published_wheel_has_the_published_bytes(empty_cache, tmp_path):
    name = "httpstan-4.13.0-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"
    changed = small_wheel(tmp_path).rename(tmp_path / name)
    with pytest.raises(ToolchainError, match="not what was published; fetch it again"):
        use_wheel(changed)
    assert chosen(empty_cache) is None


def test_a_wheel_that_leaves_its_folder_is_refused_before_anything_is_written(tmp_path):
    path = small_wheel(tmp_path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("httpstan/lib/../../../outside", "")
    with pytest.raises(ToolchainError, match="leaves the folder"):
        unpack(Wheel(path, "a" * 64), tmp_path / "in" / "out")
    assert not (tmp_path / "in").exists() and not (tmp_path / "outside").exists()


@pytest.mark.parametrize("name", ["/etc/outside", "httpstan/include//outside", "..\\outside"])
def test_other_names_of_a_wheel_stay_in_the_folder(name, tmp_path):
    """What is not the C++ side is not unpacked, and an absolute path is a relative one there."""
    path = small_wheel(tmp_path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(name, "")
    unpack(Wheel(path, "a" * 64), tmp_path / "in" / "out")
    places = [place for place in tmp_path.rglob("*outside*") if place != path]
    assert all(place.is_relative_to(tmp_path / "in" / "out" / "include") for place in places)
    assert not Path("/etc/outside").exists() and not Path("/outside").exists()


def test_a_cache_that_everybody_may_write_is_refused(tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    cache.mkdir()
    cache.chmod(0o777)
    monkeypatch.setenv("STAN_MODELS_CACHE", str(cache))
    with pytest.raises(ToolchainError, match=r"chmod o-w .*cache"):
        cache_directory()
    cache.chmod(0o775)  # a team's
    assert cache_directory() == cache


def test_failed_build_is_not_taken_for_stan(empty_cache, tmp_path, monkeypatch):
    make = tmp_path / "bin" / "make"
    make.parent.mkdir()
    make.write_text("#!/bin/sh\necho 'g++: fatal error: Killed signal' >&2\nexit 2\n")
    make.chmod(0o755)
    monkeypatch.setenv("PATH", f"{make.parent}:{os.environ['PATH']}")
    use_wheel(small_wheel(tmp_path))
    with pytest.raises(ToolchainError, match=r"3 GB is needed.*\n.*build.log"):
        find_toolchain()
    assert present_toolchain() is None
    make.write_text("#!/bin/sh\nexit 0\n")  # what was left is built anew
    found = find_toolchain()
    assert found.engine == "assembled from httpstan 4.13.0" and found.stan_version == "2.35.0"
    assert "CMDSTAN_VERSION := 2.35.0" in (found.path / "makefile").read_text()
    assert not (found.path / "build.log").exists()
    assert present_toolchain() == found == find_toolchain()


def test_wheel_for_another_platform(empty_cache, tmp_path):
    path = tmp_path / "httpstan-4.13.0-cp311-cp311-other.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("httpstan/stanc", "\x7fELF of another machine")
    use_wheel(path)
    with pytest.raises(ToolchainError, match="another platform"):
        find_toolchain()


def test_everything_that_matters_is_in_the_key(tmp_path, monkeypatch):
    wheel = Wheel(tmp_path / "httpstan-4.13.0-x.whl", "a" * 64)
    keys = {toolchain_key(wheel, "g++ 12"), toolchain_key(wheel, "g++ 13")}
    keys.add(toolchain_key(Wheel(wheel.path, "b" * 64), "g++ 12"))
    monkeypatch.setenv("CXXFLAGS", "-O3")
    keys.add(toolchain_key(wheel, "g++ 12"))
    monkeypatch.setattr("stan_models.toolchain.assemble.file_digest", lambda path: "other driver")
    keys.add(toolchain_key(wheel, "g++ 12"))
    assert len(keys) == 5
    assert digest("a", "b") != digest("ab")


def test_installed_cmdstan_goes_first(empty_cache, tmp_path, monkeypatch):
    own = official(tmp_path)
    monkeypatch.setenv("CMDSTAN", str(own))
    found = find_toolchain()
    assert (found.path, found.engine, found.stan_version) == (own, "CmdStan official", "2.36.0")
    assert not found.is_assembled and not empty_cache.exists()
    (own / "make").mkdir()
    (own / "make" / "local").write_text("STAN_THREADS=true\n")
    assert find_toolchain().key != found.key


def test_cmdstan_that_is_none(empty_cache, tmp_path, monkeypatch):
    monkeypatch.setenv("CMDSTAN", str(tmp_path / "gone"))
    with pytest.raises(ToolchainError, match="gone is not a CmdStan directory; unset it"):
        find_toolchain()
    nameless = official(tmp_path)
    (nameless / "makefile").write_text("")
    monkeypatch.setenv("CMDSTAN", str(nameless))
    with pytest.raises(ToolchainError, match="names no CMDSTAN_VERSION"):
        find_toolchain()


def test_own_directory_in_cmdstan_is_not_the_users(empty_cache, tmp_path, monkeypatch):
    """`activate` sets CMDSTAN; a process that inherits it must not take it for an installation."""
    stale = empty_cache / "toolchains" / "old"
    monkeypatch.setenv("CMDSTAN", str(stale))
    assert present_toolchain() is None and "CMDSTAN" not in os.environ
    monkeypatch.setenv("CMDSTAN", str(official(stale.parent)))
    (stale.parent / "cmdstan-2.36.0" / RECORD).write_text("{}")
    assert present_toolchain() is None


def test_lock_waits_for_the_other_process(tmp_path):
    """The second holder starts only when the first process has ended."""
    script = (
        "import sys, time\nfrom pathlib import Path\n"
        "from stan_models.toolchain.cache import only_builder\n"
        "with only_builder(Path(sys.argv[1])):\n"
        "    print('held', flush=True); time.sleep(1.5); Path(sys.argv[1]).touch()\n"
    )
    target = tmp_path / "target"
    command = [sys.executable, "-c", script, str(target)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        with only_builder(target):
            assert target.exists()


def test_steps_are_plain_lines_off_a_terminal(capsys):
    with step("building [one] thing"):
        pass
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "building [one] thing ..." and said[1].startswith(
        "building [one] thing: done"
    )
    with pytest.raises(ValueError, match="inside"), step("failing"):
        raise ValueError("inside")
    assert "done" not in capsys.readouterr().err


def test_command_line_without_stan(empty_cache, no_registry, capsys):
    assert main(["info"]) == 1
    assert "python -m stan_models setup" in capsys.readouterr().out
    assert main(["setup"]) == 1
    assert "error: no httpstan wheel" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["setup", "--official", "--wheel", "x.whl"])
    assert "not allowed with" in capsys.readouterr().err


@pytest.mark.stan
def test_command_line_with_stan(toolchain, capsys):
    for command in ("info", "setup"):
        assert main([command]) == 0
        said = capsys.readouterr().out
        assert toolchain.engine in said and str(toolchain.path) in said


@pytest.mark.stan
@pytest.mark.parametrize(("made_for", "noticed"), [("cp39-cp39", True), ("py3-none", False)])
def test_a_cache_filled_by_another_python_is_noticed(
    made_for, noticed, toolchain, monkeypatch, capsys
):
    if not toolchain.is_assembled:
        pytest.skip("an installed CmdStan is in use")
    name = f"httpstan-4.13.0-{made_for}-manylinux.whl"
    monkeypatch.setattr("stan_models.__main__.chosen", lambda _: Wheel(Path(name), "a" * 64))
    assert main(["info"]) == 0
    note = f"the wheel of Python 3.9, {name}"
    assert (note in capsys.readouterr().out) == noticed


@pytest.mark.stan
def test_assembled_record_says_where_stan_is_from(toolchain):
    if not toolchain.is_assembled:
        pytest.skip("an installed CmdStan is in use")
    record = json.loads((toolchain.path / RECORD).read_text())
    assert record["key"] == toolchain.path.name and len(record["wheel_sha256"]) == 64
    assert assembled(cache_directory()) == toolchain.path


@pytest.mark.stan
def test_density_beside_an_official_cmdstan(toolchain, fresh_cache, tmp_path, monkeypatch):
    """Without our shim the library comes from bridgestan's sources, or an error says how."""
    stan_file = tmp_path / "normal.stan"
    stan_file.write_text(NORMAL)
    monkeypatch.setenv("BRIDGESTAN", str(tmp_path))
    with pytest.raises(ToolchainError, match=r"needs bridgestan's sources.*set BRIDGESTAN"):
        build_with_bridgestan(stan_file)
    if not toolchain.is_assembled:
        pytest.skip("needs the assembled toolchain to stand for bridgestan's sources")
    monkeypatch.setenv("BRIDGESTAN", str(toolchain.path))
    library = build_with_bridgestan(stan_file)
    assert library.is_file() and build_with_bridgestan(stan_file) == library
    program = StanProgram(stan_file)
    monkeypatch.setattr(StanProgram, "library", lambda self: library)
    density = program.density()
    monkeypatch.setattr(type(density), "_batch", lambda *arguments: False)  # bridgestan alone
    lp, gradient = density.log_density_gradient([[0.5], [1.0]])
    assert lp == pytest.approx([-1.0439385332, -1.4189385332])
    assert gradient.ravel() == pytest.approx([-0.5, -1.0])
    assert density.log_density([[0.5]]) == pytest.approx(lp[:1])


def test_import_is_light_and_names_the_extra():
    script = (
        "import sys, stan_models\n"
        "assert not {'cmdstanpy', 'bridgestan', 'arviz', 'rich'} & set(sys.modules), sys.modules\n"
        "assert 'nuts' in dir(stan_models)\n"
        "sys.modules['cmdstanpy'] = sys.modules['bridgestan'] = None\n"
        "from stan_models.toolchain import import_cmdstanpy\n"
        "from stan_models.library import import_bridgestan\n"
        "for load in (import_cmdstanpy, import_bridgestan):\n"
        "    try: load()\n"
        "    except ImportError as error: print(error)\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert answer.stdout.count("trusted-posteriors[stan]") == 2
