#!/usr/bin/env python3
"""Make src/tensor/grid_bits.h: the lattice points of the IQ1, IQ2 and IQ3 block types as bit sets.

    pip install gguf numpy
    python3 tools/make_grid_bits.py > src/tensor/grid_bits.h

A grid is some of the 3^8 (IQ3: 8^4) vectors of small digits, numbered in ascending order when the last digit counts most. So
a bit per vector says everything: 820 bytes where the list of 2048 vectors would take 4096.
"""
import numpy as np
from gguf import quants

GRIDS = ("IQ1_S", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S")
WORDS_PER_LINE = 5


def words_of(name):
    traits = getattr(quants, name)
    traits.init_grid()
    points, base = traits.grid.reshape(traits.grid_shape), len(traits.grid_map)
    digits = np.searchsorted(traits.grid_map, points)
    numbers = (digits * base ** np.arange(points.shape[1])).sum(axis=1)
    assert (np.diff(numbers) > 0).all(), f"{name} is not in ascending order"
    bits = np.zeros(-(-(base ** points.shape[1]) // 64) * 64, dtype=np.uint8)
    bits[numbers] = 1
    return np.packbits(bits, bitorder="little").view("<u8")


def main():
    print("// Made by tools/make_grid_bits.py, which says what this is. tensor/grids.h turns it into tables.")
    print("#pragma once\n\n#include <cstdint>\n\nnamespace colibri {\n\n// clang-format off")
    for name in GRIDS:
        words = words_of(name)
        print(f"inline constexpr uint64_t k{name.replace('_', '')}Bits[{len(words)}] = {{")
        for first in range(0, len(words), WORDS_PER_LINE):
            print("    " + " ".join(f"0x{word:016x}," for word in words[first:first + WORDS_PER_LINE]))
        print("};")
    print("// clang-format on\n\n}  // namespace colibri")


if __name__ == "__main__":
    main()
