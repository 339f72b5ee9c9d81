// SPDX-License-Identifier: BSD-3-Clause
// Random numbers that are the same on every machine, and bytes made of them.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace gaudi::test {

class Random {
public:
    explicit Random(std::uint64_t seed) : m_state(seed) {}

    std::uint64_t next() {
        std::uint64_t z = m_state += 0x9E3779B97F4A7C15;
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
        z = (z ^ z >> 27) * 0x94D049BB133111EB;
        return z ^ z >> 31;
    }
    std::uint64_t below(std::uint64_t limit) { return next() % limit; }
    bool one_in(std::uint64_t count) { return below(count) == 0; }
    /// Small sizes are as likely as large ones.
    std::uint64_t size(unsigned first_bit, unsigned last_bit) {
        const std::uint64_t floor = std::uint64_t{1} << (first_bit + below(last_bit - first_bit));
        return floor + below(floor);
    }

private:
    std::uint64_t m_state;
};

/// Different in each run, unless GAUDI_TEST_SEED repeats one. Print it with SCOPED_TRACE.
inline std::uint64_t fresh_seed() {
    if (const char *given = std::getenv("GAUDI_TEST_SEED"))
        return std::stoull(given);
    return std::random_device{}();
}

using Bytes = std::vector<unsigned char>;

/// Bytes that differ from place to place and from seed to seed.
inline Bytes pattern(std::size_t size, std::uint64_t seed) {
    Bytes bytes(size);
    Random random(seed * 0x2545F4914F6CDD1D + 1);
    for (std::size_t at = 0; at < size; at += sizeof(std::uint64_t)) {
        const std::uint64_t word = random.next();
        std::memcpy(bytes.data() + at, &word, size - at < sizeof word ? size - at : sizeof word);
    }
    return bytes;
}

} // namespace gaudi::test
