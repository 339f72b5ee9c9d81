// SPDX-License-Identifier: BSD-3-Clause
// What the tests of the device layer share. Each test is a process of its own (ctest runs them so), on a software server
// of its own in a fresh directory: set variables with `set` before the first call of `cards`.
#pragma once

#include "counters.h"

#include "gaudi/cards.h"

#include <gtest/gtest.h>

#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace gaudi::test {

inline constexpr std::uint64_t kKiB = 1ull << 10;
inline constexpr std::uint64_t kMiB = 1ull << 20;
inline constexpr std::uint64_t kGiB = 1ull << 30;
inline constexpr std::uint64_t kPage = 768 * kMiB; // of a Gaudi2

/// Submissions with which an engine tries the card when it starts: down and up, and to each engine within it and back.
inline constexpr unsigned kOfTheTrial = 2 * 8 + 2 * 9;

inline void set(const char *name, const std::string &value) { setenv(name, value.c_str(), 1); }

/// A rule of SOFTGAUDI_FAULTS for the nth submission after the trial.
inline std::string at_submission(unsigned nth, const std::string &action, const char *onwards = "",
                                 const std::string &card = "") {
    return "command_submission" + card + "#" + std::to_string(kOfTheTrial + nth) + onwards + "=" + action;
}

/// What a step gave; its sentence fails the test.
template <class T>
T value(Result<T> result) {
    if (!result)
        throw std::runtime_error(result.error().text);
    return std::move(*result);
}
inline void value(const Result<void> &result) {
    if (!result)
        throw std::runtime_error(result.error().text);
}

class GaudiTest : public ::testing::Test {
protected:
    GaudiTest() {
        for (const char *name : {"GAUDI_MAPPING_TABLE", "HABANA_VISIBLE_MODULES", "HLS_MODULE_ID", "SOFTGAUDI_CARDS",
                                 "SOFTGAUDI_FAULTS", "SOFTGAUDI_MODEL", "SOFTGAUDI_PACE", "SOFTGAUDI_QUIRKS"})
            unsetenv(name);
        char name[] = "/dev/shm/gaudi-test-XXXXXX";
        m_dir = mkdtemp(name);
        set("SOFTGAUDI_DIR", m_dir);
        set("GAUDI_THUNK", SOFTGAUDI_LIBRARY);
    }
    ~GaudiTest() override {
        std::error_code ignored;
        std::filesystem::remove_all(m_dir, ignored);
    }

    static Cards &cards() { return *value(Cards::get()); }
    static Card &card(std::size_t index = 0) { return *cards().all().at(index); }

private:
    std::string m_dir;
};

/// Repeats `step` until it is true; false when that takes unreasonably long.
template <class Step>
bool until(Step &&step) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(120);
    while (!step())
        if (std::chrono::steady_clock::now() > limit)
            return false;
    return true;
}

} // namespace gaudi::test
