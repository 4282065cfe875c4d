// A strip of a panel of a block encoding as bytes and float scales: what the kernels multiply (tensor/packed.h).
//
// Seen by the kernels of every instruction set, so a plain struct and C headers only. Who calls an ExpandStrip owns the
// memory; the functions are pure. Weight i of output o is d[i / 16][o] * (u - 64), where u is byte 4 * o + i % 4 of
// line i / 4, from 2 to 126.
#pragma once

#include <stdint.h>

namespace colibri {

struct alignas(64) ExpandedStrip {
  float d[16][16];
  uint8_t lines[64][64];
};

/// The offset of the bytes.
constexpr int kExpandedOffset = 64;

/// Expands a strip of `inputs` inputs.
typedef void (*ExpandStrip)(const void* strip, int64_t inputs, ExpandedStrip* out);

}  // namespace colibri
