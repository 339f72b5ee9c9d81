// SPDX-License-Identifier: BSD-3-Clause
#include "tests.h"

#include "copy_route.h"
#include "os/format.h"
#include "rdma_route.h"

#include <algorithm>

namespace gaudi::cli::bench {
namespace {

constexpr auto kOne = Test::Cards::one, kTwo = Test::Cards::two, kAll = Test::Cards::all;
using Way = Test::Way;

std::vector<PathEnds> list_paths(const PlannedTest &planned) {
    const std::vector<Card *> &cards = planned.cards;
    const Way way = planned.test->way;
    if (way == Way::within)
        return {{cards[0], cards[0]}};
    std::vector<PathEnds> paths;
    if (planned.test->cards == kTwo) {
        paths.push_back({cards[0], cards[1]});
        if (way == Way::both)
            paths.push_back({cards[1], cards[0]});
        return paths;
    }
    for (Card *card : cards) {
        if (way != Way::up)
            paths.push_back({nullptr, card});
        if (way != Way::down)
            paths.push_back({card, nullptr});
    }
    return paths;
}

} // namespace

const std::vector<Test> &all_tests() {
    static const std::vector<Test> tests = {
        {"host_to_device_memcpy", "host memory to a card", kOne, Way::down},
        {"device_to_host_memcpy", "a card to host memory", kOne, Way::up},
        {"host_device_bidirectional_memcpy", "host memory to a card and back, both at once", kOne, Way::both},
        {"device_local_copy", "within a card", kOne, Way::within},
        {"device_to_device_memcpy", "a card to another", kTwo, Way::down},
        {"device_to_device_bidirectional_memcpy", "between two cards, both directions at once", kTwo, Way::both},
        {"host_to_all_memcpy", "host memory to all cards at once", kAll, Way::down},
        {"all_to_host_memcpy", "all cards to host memory at once", kAll, Way::up},
        {"host_all_bidirectional_memcpy", "host memory to all cards and back, all at once", kAll, Way::both},
        {"rdma_write_device", "host memory to a card by an RDMA NIC", kOne, Way::down, true},
        {"rdma_read_device", "a card to host memory by an RDMA NIC", kOne, Way::up, true},
        {"rdma_write_device_to_device", "a card to another by an RDMA NIC", kTwo, Way::down, true},
    };
    return tests;
}

OrSentence<std::vector<const Test *>> choose_tests(const std::vector<std::string> &names) {
    for (const std::string &wanted : names)
        if (std::ranges::none_of(all_tests(), [&](const Test &test) { return wanted == test.name; }))
            return Sentence(os::format("there is no test '{}'; ucx_gaudi bench --list has their names", wanted));
    std::vector<const Test *> chosen;
    for (const Test &test : all_tests())
        if (names.empty() || std::ranges::find(names, test.name) != names.end())
            chosen.push_back(&test);
    return chosen;
}

std::vector<std::vector<Card *>> choose_cards(const Test &test, const std::vector<Card *> &cards, bool once) {
    std::vector<std::vector<Card *>> chosen;
    switch (test.cards) {
    case kOne:
        for (Card *card : cards)
            chosen.push_back({card});
        break;
    case kTwo:
        for (Card *from : cards)
            for (Card *to : cards)
                if (from != to)
                    chosen.push_back({from, to});
        break;
    case kAll:
        if (cards.size() > 1)
            chosen.push_back(cards);
    }
    if (once && chosen.size() > 1)
        chosen.resize(1);
    return chosen;
}

std::string describe_route(const PlannedTest &planned) {
    std::vector<std::uint32_t> numbers;
    for (const Card *card : planned.cards)
        numbers.push_back(card->module_id());
    const Way way = planned.test->way;
    std::string text;
    if (planned.test->cards == kTwo) {
        text = os::format("card {} {} card {}", numbers[0], way == Way::both ? "and" : "to", numbers[1]);
    } else if (way == Way::within) {
        text = os::format("within card {}", numbers[0]);
    } else {
        const std::string cards = os::format("card{} {}", numbers.size() > 1 ? "s" : "", os::join(numbers, ", "));
        text = way == Way::both ? os::format("host and {}", cards)
               : way == Way::up ? os::format("{} to host", cards)
                                : os::format("host to {}", cards);
    }
    return planned.nic.empty() ? text : os::format("{} by {}", text, planned.nic);
}

OrSentence<std::unique_ptr<Route>> make_route(Cards &cards, const PlannedTest &planned, std::uint64_t length) {
    if (!planned.test->by_nic)
        return CopyRoute::make(cards, list_paths(planned), length);
    const bool two = planned.test->cards == kTwo;
    const RdmaKind kind = two                            ? RdmaKind::write_between_cards
                          : planned.test->way == Way::up ? RdmaKind::read
                                                         : RdmaKind::write;
    return RdmaRoute::make(cards, kind, *planned.cards.back(), two ? planned.cards.front() : nullptr, planned.nic,
                           length);
}

} // namespace gaudi::cli::bench
