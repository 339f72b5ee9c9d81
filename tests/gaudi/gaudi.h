// SPDX-License-Identifier: BSD-3-Clause
// What the tests of the device layer share. Each test is a process of its own (ctest runs them so), on a software server
// of its own in a fresh directory: set variables with `set` before the first call of `cards`.
#pragma once

#include "counters.h"

#include "gaudi/card/cards.h"
#include "gaudi/copy/engine_slot.h"
#include "gaudi/memory/allocation.h"
#include "gaudi/memory/arena.h"
#include "gaudi/memory/live_mappings.h"
#include "gaudi/memory/resolve.h"

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

/// Submissions of the self-test when an engine starts: down and up, and to each DMA engine within the card and up.
inline constexpr unsigned kSelfTestSubmissions = 2 * 8 + 2 * 9;

inline void set(const char *name, const std::string &value) { setenv(name, value.c_str(), 1); }

/// A rule of SOFTGAUDI_FAULTS for the nth submission after the self-test.
inline std::string at_submission(unsigned nth, const std::string &action, const char *onwards = "",
                                 const std::string &card = "") {
    return "command_submission" + card + "#" + std::to_string(kSelfTestSubmissions + nth) + onwards + "=" + action;
}

/// The result of a step; the sentence of one that failed fails the test.
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

/// Whether a step succeeded; its sentence is the failure's message.
template <class T>
::testing::AssertionResult is_ok(const Result<T> &result) {
    return result ? ::testing::AssertionSuccess() : ::testing::AssertionFailure() << result.error().text;
}
/// The errno of a step; 0 for one that succeeded.
template <class T>
int code_of(const Result<T> &result) {
    return result ? 0 : result.error().code;
}
/// The sentence of a step that failed; empty for one that succeeded.
template <class T>
std::string text_of(const Result<T> &result) {
    return result ? std::string() : result.error().text;
}

inline Region *find_region(std::uint64_t address) { return LiveMappings::get().find(address); }
inline Region *look_up(std::uint64_t address) {
    const Resolved found = resolve(*value(Cards::get()), address, 1);
    return found ? &found.region() : nullptr;
}
inline bool free_on(Card &card, std::uint64_t address) {
    Arena *arena = card.session() ? card.session()->find<Arena>() : nullptr;
    return arena && arena->free(address);
}
inline Arena &arena_of(Card &card) { return value(card.open())->get<Arena>(); }
inline bool is_adopted(const Card &card) { return card.state() == Card::State::adopted; }
/// The engine of the card's session, started if need be.
inline Result<std::shared_ptr<gaudi::Engine>> start_engine(Card &card) {
    const auto session = card.open();
    if (!session)
        return tl::unexpected(session.error());
    return (*session)->get<EngineSlot>().start();
}
inline gaudi::Engine *started_engine(const Card &card) {
    const EngineSlot *slot = card.session() ? card.session()->find<EngineSlot>() : nullptr;
    return slot ? slot->started() : nullptr;
}

class GaudiTest : public ::testing::Test {
protected:
    GaudiTest() {
        for (const char *name :
             {"GAUDI_MAPPING_TABLE", "HABANA_VISIBLE_MODULES", "HLS_MODULE_ID", "SOFTGAUDI_BAR", "SOFTGAUDI_PROFILE",
              "SOFTGAUDI_CARDS", "SOFTGAUDI_FAULTS", "SOFTGAUDI_MODEL", "SOFTGAUDI_PACE", "SOFTGAUDI_QUIRKS"})
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

    const std::string &dir() const { return m_dir; }
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
