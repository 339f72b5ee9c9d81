// SPDX-License-Identifier: BSD-3-Clause
// What the tests of the device layer share. Each test is a process of its own (ctest runs them so), on a software server
// of its own in a fresh directory: set variables with `set` before the first call of `cards`.
#pragma once

#include "gaudi/cards.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
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

/// What the software server has counted for a card so far.
class Counters {
public:
    explicit Counters(const Card &card) {
        std::FILE *pipe = popen(SOFTGAUDI_STAT " --json", "re");
        std::string text;
        std::array<char, 4096> piece{};
        while (const std::size_t got = std::fread(piece.data(), 1, piece.size(), pipe))
            text.append(piece.data(), got);
        if (pclose(pipe) != 0)
            throw std::runtime_error("softgaudi_stat failed");
        const nlohmann::json report = nlohmann::json::parse(text);
        for (const auto &entry : report.at("cards"))
            if (entry.at("bus_id") == card.bus_id())
                m_card = entry;
    }

    std::uint64_t operator[](const char *key) const { return m_card.at(key).get<std::uint64_t>(); }
    bool in_use() const { return m_card.at("in_use").get<bool>(); }
    std::uint64_t calls(const char *function) const { return m_card.at("calls").value(function, std::uint64_t{0}); }
    /// Of all functions.
    std::uint64_t calls() const {
        std::uint64_t sum = 0;
        for (const auto &count : m_card.at("calls"))
            sum += count.get<std::uint64_t>();
        return sum;
    }

private:
    nlohmann::json m_card;
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
