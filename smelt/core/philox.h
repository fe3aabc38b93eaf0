// Philox4x32-10: a counter-based random number generator (Salmon et al., SC 2011).
//
// A stream is named by a seed and a text ("init/model.layers.3.mlp.gate.weight"), and its i-th
// number is a pure function of (seed, name, i): independent of order, threads, device and world
// size.
//
//   Philox random(seed, "data/epoch-0");
//   double u = random.uniform(i);          // i-th draw, in [0, 1)
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace smelt {

class Philox {
 public:
  Philox(std::uint64_t seed, std::string_view stream);

  /// Block `i` of four independent 32-bit words.
  std::array<std::uint32_t, 4> block(std::uint64_t i) const;
  /// The i-th 64-bit word.
  std::uint64_t bits(std::uint64_t i) const;
  /// The i-th uniform draw in [0, 1), 53 bits.
  double uniform(std::uint64_t i) const;
  /// The i-th standard normal draw (Box-Muller, one block each).
  double normal(std::uint64_t i) const;
  /// The i-th integer in [0, n); the bias is below n / 2^64.
  std::uint64_t below(std::uint64_t i, std::uint64_t n) const;
  /// A random permutation of 0 … n-1 (Fisher-Yates over the draws 0 … n-2).
  std::vector<std::uint32_t> permutation(std::uint32_t n) const;

 private:
  std::array<std::uint32_t, 2> key_;
  std::array<std::uint32_t, 2> stream_;
};

}  // namespace smelt
