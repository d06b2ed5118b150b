#!/usr/bin/env bash
# Builds llama.cpp's own llama-server once and prints its path: llama_server.sh PIP
# The sources are those in the sdist of llama-cpp-python, so that no site but the package index is
# asked. It takes about 9 minutes on two idle cores, and cmake, ninja and a C++ compiler.
# The program needs libstdc++ alone and any processor with AVX2; it stays outside of this checkout.
set -euo pipefail
pip=$(realpath --no-symlinks "$1")
version=0.3.36
cache=${XDG_CACHE_HOME:-$HOME/.cache}/llmgw
program=$cache/llama-server-$version
if [ -x "$program" ]; then
    echo "$program"
    exit
fi

for tool in cmake ninja c++; do
    command -v "$tool" >/dev/null && continue
    echo "there is no $tool: apt-get install cmake ninja-build g++" >&2
    exit 1
done
mkdir -p "$cache"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
{
    "$pip" --quiet --disable-pip-version-check download --no-deps --no-binary :all: --dest "$work" \
        "llama-cpp-python==$version"
    tar --extract --gzip --file "$work"/llama_cpp_python-*.tar.gz --directory "$work"
    cmake -S "$work"/llama_cpp_python-*/vendor/llama.cpp -B "$work/build" -G Ninja \
        -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF -DGGML_NATIVE=OFF -DGGML_OPENMP=OFF \
        -DLLAMA_OPENSSL=OFF -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_BUILD_UI=OFF \
        -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF
    cmake --build "$work/build" --target llama-server --parallel "$(nproc)"
    strip --output-file="$work/llama-server" "$work/build/bin/llama-server"
    "$work/llama-server" --version
    mv "$work/llama-server" "$program"
} >&2
echo "$program"
