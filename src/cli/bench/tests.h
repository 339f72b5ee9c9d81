// SPDX-License-Identifier: BSD-3-Clause
// The tests by their names, and which cards each of them takes.
#pragma once

#include "cli/sentence.h"
#include "gaudi/card/cards.h"
#include "route.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace gaudi::cli::bench {

struct Test {
    enum class Cards { one, two, all };
    enum class Way {
        down, // to the card, or from the first card to the second
        up,
        both,
        within, // the card
    };

    const char *name;
    const char *description;
    Cards cards;
    Way way;
    bool by_nic = false;

    /// Where several paths are busy at once, only their bandwidth is measured.
    bool has_latency() const { return cards != Cards::all && way != Way::both; }
};

const std::vector<Test> &all_tests();
/// The named ones in the order of all_tests(); all of them where no name is given.
OrSentence<std::vector<const Test *>> choose_tests(const std::vector<std::string> &names);

/// A test on the cards that it takes this time.
struct PlannedTest {
    const Test *test;
    std::vector<Card *> cards;
    std::string nic; // empty unless the test is by a NIC
};

/// The cards of each run of a test: each of `cards`, each pair, or all of them. With `once` only the first of these.
std::vector<std::vector<Card *>> choose_cards(const Test &test, const std::vector<Card *> &cards, bool once);

/// For readers: "host to card 0".
std::string describe_route(const PlannedTest &planned);
/// Opens the cards, and allocates `length` bytes at each end.
OrSentence<std::unique_ptr<Route>> make_route(Cards &cards, const PlannedTest &planned, std::uint64_t length);

} // namespace gaudi::cli::bench
