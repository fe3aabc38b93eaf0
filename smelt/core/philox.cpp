#include "smelt/core/philox.h"

#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

#include "smelt/core/hash.h"

namespace smelt {
__extension__ using Wide = unsigned __int128;

Philox::Philox(std::uint64_t seed, std::string_view stream)
    : key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)} {
  const std::uint64_t name = hash64(stream);
  stream_ = {static_cast<std::uint32_t>(name), static_cast<std::uint32_t>(name >> 32)};
}

std::array<std::uint32_t, 4> Philox::block(std::uint64_t i) const {
  constexpr std::uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  std::array<std::uint32_t, 4> c = {static_cast<std::uint32_t>(i),
                                    static_cast<std::uint32_t>(i >> 32), stream_[0], stream_[1]};
  std::uint32_t k0 = key_[0], k1 = key_[1];
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = kMultiplier0 * c[0], p1 = kMultiplier1 * c[2];
    c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(p0)};
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
  return c;
}

std::uint64_t Philox::bits(std::uint64_t i) const {
  const auto c = block(i);
  return (static_cast<std::uint64_t>(c[1]) << 32) | c[0];
}

double Philox::uniform(std::uint64_t i) const {
  return static_cast<double>(bits(i) >> 11) * 0x1.0p-53;
}

double Philox::normal(std::uint64_t i) const {
  const auto c = block(i);
  const std::uint64_t a = (static_cast<std::uint64_t>(c[1]) << 32) | c[0];
  const std::uint64_t b = (static_cast<std::uint64_t>(c[3]) << 32) | c[2];
  const double u = (static_cast<double>(a >> 11) + 1.0) * 0x1.0p-53;  // (0, 1]
  const double v = static_cast<double>(b >> 11) * 0x1.0p-53;
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
}

std::uint64_t Philox::below(std::uint64_t i, std::uint64_t n) const {
  return static_cast<std::uint64_t>((static_cast<Wide>(bits(i)) * n) >> 64);
}

std::vector<std::uint32_t> Philox::permutation(std::uint32_t n) const {
  std::vector<std::uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0u);
  for (std::uint32_t i = n; i > 1; --i) std::swap(order[i - 1], order[below(n - i, i)]);
  return order;
}

}  // namespace smelt
