// The loops for x86-64. Every function carries its own target, so the file needs no flags, and nothing here runs before
// the CPU was asked.
//
// Twelve chains hide the latency of one multiply-add on every core so far; an empty asm statement makes each chain
// opaque, so that the compiler can neither merge rounds nor drop them.
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <vector>

#include "peak_loops.h"
#include "platform/cpu.h"

#define COLIBRI_TARGET(features) __attribute__((target(features), noinline))
#define COLIBRI_KEEP_X(v) asm volatile("" : "+x"(v))
#define COLIBRI_KEEP_V(v) asm volatile("" : "+v"(v))
#define COLIBRI_KEEP_R(v) asm volatile("" : "+r"(v))

namespace colibri::bench {
namespace {

constexpr int kChains = 12;

void scalar_int8(int64_t rounds) {
  int32_t sums[kChains] = {}, a = 3, b = 5;
  for (int64_t i = 0; i < rounds; ++i) {
    for (int32_t& sum : sums) {
      COLIBRI_KEEP_R(a);
      sum += a * b;
      COLIBRI_KEEP_R(sum);
    }
  }
}

void scalar_f32(int64_t rounds) {
  float sums[kChains] = {}, a = 3, b = 5;
  for (int64_t i = 0; i < rounds; ++i) {
    for (float& sum : sums) {
      COLIBRI_KEEP_X(a);
      sum += a * b;
      COLIBRI_KEEP_X(sum);
    }
  }
}

COLIBRI_TARGET("sse4.1") void sse4_int8(int64_t rounds) {
  __m128i sums[kChains] = {}, a = _mm_set1_epi8(3), b = _mm_set1_epi8(5);
  const __m128i ones = _mm_set1_epi16(1);
  for (int64_t i = 0; i < rounds; ++i) {
    for (__m128i& sum : sums) {
      COLIBRI_KEEP_X(a);
      sum = _mm_add_epi32(sum, _mm_madd_epi16(_mm_maddubs_epi16(a, b), ones));
      COLIBRI_KEEP_X(sum);
    }
  }
}

COLIBRI_TARGET("sse4.1") void sse4_f32(int64_t rounds) {
  __m128 sums[kChains] = {}, a = _mm_set1_ps(3), b = _mm_set1_ps(5);
  for (int64_t i = 0; i < rounds; ++i) {
    for (__m128& sum : sums) {
      COLIBRI_KEEP_X(a);
      sum = _mm_add_ps(sum, _mm_mul_ps(a, b));
      COLIBRI_KEEP_X(sum);
    }
  }
}

COLIBRI_TARGET("avx2") void avx2_int8(int64_t rounds) {
  __m256i sums[kChains] = {}, a = _mm256_set1_epi8(3), b = _mm256_set1_epi8(5);
  const __m256i ones = _mm256_set1_epi16(1);
  for (int64_t i = 0; i < rounds; ++i) {
    for (__m256i& sum : sums) {
      COLIBRI_KEEP_X(a);
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), ones));
      COLIBRI_KEEP_X(sum);
    }
  }
}

COLIBRI_TARGET("avx2,fma") void avx2_f32(int64_t rounds) {
  __m256 sums[kChains] = {}, a = _mm256_set1_ps(3), b = _mm256_set1_ps(5);
  for (int64_t i = 0; i < rounds; ++i) {
    for (__m256& sum : sums) {
      sum = _mm256_fmadd_ps(a, b, sum);
      COLIBRI_KEEP_X(sum);
    }
  }
}

COLIBRI_TARGET("avx2,avxvnni") void avxvnni_int8(int64_t rounds) {
  __m256i sums[kChains] = {}, a = _mm256_set1_epi8(3), b = _mm256_set1_epi8(5);
  for (int64_t i = 0; i < rounds; ++i) {
    for (__m256i& sum : sums) {
      sum = _mm256_dpbusd_avx_epi32(sum, a, b);
      COLIBRI_KEEP_X(sum);
    }
  }
}

COLIBRI_TARGET("avx512f,avx512vnni") void avx512_int8(int64_t rounds) {
  __m512i sums[kChains] = {}, a = _mm512_set1_epi8(3), b = _mm512_set1_epi8(5);
  for (int64_t i = 0; i < rounds; ++i) {
    for (__m512i& sum : sums) {
      sum = _mm512_dpbusd_epi32(sum, a, b);
      COLIBRI_KEEP_V(sum);
    }
  }
}

COLIBRI_TARGET("avx512f") void avx512_f32(int64_t rounds) {
  __m512 sums[kChains] = {}, a = _mm512_set1_ps(3), b = _mm512_set1_ps(5);
  for (int64_t i = 0; i < rounds; ++i) {
    for (__m512& sum : sums) {
      sum = _mm512_fmadd_ps(a, b, sum);
      COLIBRI_KEEP_V(sum);
    }
  }
}

/// Eight tiles of 16 rows of 64 bytes. Static: g++ 12 may drop the stores to one on the stack.
struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
constexpr TileConfig kTileConfig;

COLIBRI_TARGET("amx-tile,amx-int8") void amx_int8(int64_t rounds) {
  _tile_loadconfig(&kTileConfig);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  _tile_zero(6);
  _tile_zero(7);
  for (int64_t i = 0; i < rounds; ++i) {
    _tile_dpbusd(0, 4, 6);
    _tile_dpbusd(1, 4, 7);
    _tile_dpbusd(2, 5, 6);
    _tile_dpbusd(3, 5, 7);
  }
  _tile_release();
}

/// Linux gives the tile registers to a process that asks; a virtual machine may refuse although CPUID has them.
bool may_use_tiles() {
  constexpr int kRequestPermission = 0x1023, kTileData = 18;
  return platform::cpu_features().amx_int8 && syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

constexpr double dots(int bytes_per_vector) { return 2.0 * kChains * bytes_per_vector; }
constexpr double floats(int floats_per_vector) { return 2.0 * kChains * floats_per_vector; }

std::vector<PeakLoop> find_loops() {
  const platform::CpuFeatures& cpu = platform::cpu_features();
  std::vector<PeakLoop> loops;
  const auto add = [&loops](bool available, const PeakLoop& loop) {
    if (available) loops.push_back(loop);
  };
  constexpr Arithmetic int8 = Arithmetic::kInt8, f32 = Arithmetic::kF32;
  add(may_use_tiles(), {"amx", int8, "tdpbusd", 4 * 2.0 * 16 * 16 * 64, amx_int8});
  add(cpu.avx512 && cpu.avx512_vnni, {"avx512", int8, "vpdpbusd zmm", dots(64), avx512_int8});
  add(cpu.avx512, {"avx512", f32, "vfmadd zmm", floats(16), avx512_f32});
  add(cpu.avx_vnni, {"avxvnni", int8, "vpdpbusd ymm", dots(32), avxvnni_int8});
  add(cpu.avx2, {"avx2", int8, "vpmaddubsw vpmaddwd vpaddd ymm", dots(32), avx2_int8});
  add(cpu.avx2, {"avx2", f32, "vfmadd ymm", floats(8), avx2_f32});
  add(cpu.sse41, {"sse4", int8, "pmaddubsw pmaddwd paddd", dots(16), sse4_int8});
  add(cpu.sse41, {"sse4", f32, "mulps addps", floats(4), sse4_f32});
  add(true, {"scalar", int8, "imul add", dots(1), scalar_int8});
  add(true, {"scalar", f32, "mulss addss", floats(1), scalar_f32});
  return loops;
}

}  // namespace

std::span<const PeakLoop> peak_loops() {
  static const std::vector<PeakLoop> loops = find_loops();
  return loops;
}

namespace {

constexpr int64_t kStreams = 4;  // places of the memory that are read side by side; the prefetchers follow them all

COLIBRI_TARGET("avx512f") uint64_t read_avx512(const std::byte* data, int64_t stream_bytes) {
  __m512i any = {};
  for (int64_t at = 0; at < stream_bytes; at += 64) {
    for (int64_t s = 0; s < kStreams; ++s) any = _mm512_or_si512(any, _mm512_load_si512(data + s * stream_bytes + at));
  }
  alignas(64) uint64_t words[8];
  _mm512_store_si512(words, any);
  return words[0] | words[7];
}

COLIBRI_TARGET("avx2") uint64_t read_avx2(const std::byte* data, int64_t stream_bytes) {
  __m256i any = {};
  for (int64_t at = 0; at < stream_bytes; at += 32) {
    for (int64_t s = 0; s < kStreams; ++s) {
      const auto* line = reinterpret_cast<const __m256i*>(data + s * stream_bytes + at);
      any = _mm256_or_si256(any, _mm256_load_si256(line));
    }
  }
  return static_cast<uint64_t>(_mm256_extract_epi64(any, 0) | _mm256_extract_epi64(any, 2));
}

uint64_t read_sse2(const std::byte* data, int64_t stream_bytes) {
  __m128i any = {};
  for (int64_t at = 0; at < stream_bytes; at += 16) {
    for (int64_t s = 0; s < kStreams; ++s) {
      const auto* line = reinterpret_cast<const __m128i*>(data + s * stream_bytes + at);
      any = _mm_or_si128(any, _mm_load_si128(line));
    }
  }
  return static_cast<uint64_t>(_mm_cvtsi128_si64(any));
}

}  // namespace

uint64_t read_all(const std::byte* data, int64_t size_bytes) {
  const int64_t stream_bytes = size_bytes / kStreams;
  if (platform::cpu_features().avx512) return read_avx512(data, stream_bytes);
  if (platform::cpu_features().avx2) return read_avx2(data, stream_bytes);
  return read_sse2(data, stream_bytes);
}

}  // namespace colibri::bench
