"""The pure rules of installing: which build, what ldd means, what checksums a list holds."""

from __future__ import annotations

import pytest

from llmgw.agent.install import recipes, release_hosts, releases, verifying
from llmgw.agent.install.release_hosts import Folder, GitHub, Mirror
from llmgw.domain.nodes import Host
from llmgw.errors import Invalid, Unsupported

AMD64 = Host(arch="amd64", cpu_flags=("avx", "avx2"))


def host(arch="amd64", *, driver="", flags=("avx", "avx2")):
    return Host(arch=arch, nvidia_driver=driver, cpu_flags=flags)


@pytest.mark.parametrize(
    ("machine", "variant", "assets"),
    [
        pytest.param(host(), "cpu", ["llama-b1-bin-ubuntu-x64.tar.gz"], id="x64"),
        pytest.param(host("arm64"), "cpu", ["llama-b1-bin-ubuntu-arm64.tar.gz"], id="arm64"),
        pytest.param(
            host(driver="570.1"),
            "cuda-12.8",
            [
                "llama-b1-bin-ubuntu-cuda-12.8-x64.tar.gz",
                "cudart-llama-b1-bin-ubuntu-cuda-12.8-x64.tar.gz",
            ],
            id="x64 with a driver",
        ),
        pytest.param(
            host("arm64", driver="570.1"),
            "cpu",
            ["llama-b1-bin-ubuntu-arm64.tar.gz"],
            id="arm64 with a driver",
        ),
    ],
)
def test_the_build_of_llamacpp_follows_from_architecture_and_driver(machine, variant, assets):
    build = recipes.choose("llamacpp", "b1", machine)
    assert (build.variant, list(build.assets)) == (variant, assets)
    assert build.packages == {"deb": ("libgomp1",), "rpm": ("libgomp",)}


@pytest.mark.parametrize("arch", ["riscv64", ""])
def test_an_architecture_without_a_build_is_unsupported_and_named(arch):
    with pytest.raises(Unsupported, match=arch or "unknown architecture"):
        recipes.choose("llamacpp", "b1", host(arch))


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_engines_for_cards_are_unsupported_without_a_driver(engine):
    with pytest.raises(Unsupported, match="no NVIDIA driver is loaded"):
        recipes.choose(engine, "0.11.0", host())


def test_an_engine_without_a_recipe_is_to_be_named_in_the_settings():
    with pytest.raises(Unsupported, match=r"name its program in agent\.yaml"):
        recipes.choose("tensorrt", "1", host())


@pytest.mark.parametrize("version", ["", "../x", "a/b", "-rf", "b1 b2", "x" * 65])
def test_a_version_that_is_no_folder_name_is_refused(version):
    with pytest.raises(Invalid):
        recipes.choose("llamacpp", version, host())


def test_a_processor_without_avx2_is_told_what_that_costs():
    build = recipes.choose("llamacpp", "b1", host(flags=("avx",)))
    assert "no AVX2" in recipes.slow_because(build, host(flags=("avx",)))
    assert "CPU type host" in recipes.slow_because(build, host(flags=("avx",)))
    assert recipes.slow_because(build, host()) == ""


def test_a_processor_that_was_not_read_lacks_nothing():
    assert (
        recipes.slow_because(recipes.choose("llamacpp", "b1", host(flags=())), host(flags=())) == ""
    )


_NEEDED = "not found (required by /opt/x"
LDD = f"""\
\tlinux-vdso.so.1 (0x00007ffd)
\tlibgomp.so.1 => not found
\tlibllama.so => /opt/x/libllama.so (0x00007f)
\tlibgomp.so.1 => not found
/opt/x/llama-server: /lib64/libstdc++.so.6: version `GLIBCXX_3.4.30' {_NEEDED}/llama-server)
/opt/x/llama-server: /lib64/libstdc++.so.6: version `GLIBCXX_3.4.30' {_NEEDED}/libllama.so)
/opt/x/llama-server: /lib64/libc.so.6: version `GLIBC_2.34' {_NEEDED}/llama-server)
"""


def test_missing_and_old_libraries_are_named_once_each():
    assert verifying.missing_libraries(LDD) == (
        "libgomp.so.1 is not installed",
        "libstdc++.so.6 is too old (needs GLIBCXX_3.4.30)",
        "libc.so.6 is too old (needs GLIBC_2.34)",
    )
    assert verifying.missing_libraries("\tnot a dynamic executable\n") == ()


@pytest.mark.parametrize(
    ("output", "line"),
    [
        ("ggml: cpu\nversion: 10991 (abc)\nbuilt with cc", "version: 10991 (abc)"),
        ("llama-server Version 3", "llama-server Version 3"),
        ("hello", ""),
        ("", ""),
    ],
    ids=["second line", "any case", "none", "empty"],
)
def test_the_version_is_the_first_line_that_speaks_of_one(output, line):
    assert verifying.version_line(output) == line


def test_a_list_of_checksums_is_read_in_both_of_its_forms():
    text = f"# made by hand\n{'a' * 64}  x.tar.gz\n{'B' * 64} *y z.whl\n\n{'c' * 64}  ./z\n"
    assert releases.read_sums(text) == {"x.tar.gz": "a" * 64, "y z.whl": "b" * 64, "z": "c" * 64}


@pytest.mark.parametrize(
    "line",
    ["abc  x", f"{'a' * 64}  ../x", f"{'a' * 64}  /x", f"{'a' * 64}  a/b", f"{'a' * 64}  .."],
)
def test_a_line_that_is_no_checksum_of_a_file_is_refused(line):
    with pytest.raises(Invalid, match="no checksum of a file"):
        releases.read_sums(line)


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        ("bundle=/srv/bundle", Folder),
        ("mirror=http://models.internal:8081/", Mirror),
        ("github", GitHub),
        ("github=http://127.0.0.1:1", GitHub),
    ],
)
def test_a_source_is_a_kind_and_a_place(written, kind):
    assert isinstance(release_hosts.parse(written), kind)


@pytest.mark.parametrize("written", ["", "bundle", "bundle=", "mirror=/x", "ftp=x", "github=x"])
def test_what_is_no_source_says_how_one_is_written(written):
    with pytest.raises(Invalid, match="write bundle=DIR"):
        release_hosts.parse(written)
