// SPDX-License-Identifier: BSD-3-Clause
// Opening a card: at the first need, once, and the default card of a caller that names none.
#include "gaudi.h"

#include "gaudi/card/settings.h"
#include "thunk/reported.h"

#include <gmock/gmock.h>

#include <sys/wait.h>

#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace gaudi;
using namespace gaudi::test;
using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

namespace {

class CardOpen : public GaudiTest {
protected:
    /// A card that another process holds open while this object lives.
    class HeldCard {
    public:
        explicit HeldCard(const std::string &bus_id) {
            if (pipe(m_begun) != 0 || pipe(m_over) != 0 || (m_process = fork()) < 0)
                throw std::runtime_error("no other process");
            if (m_process == 0) {
                ::close(m_over[1]);
                const auto device = thunk::Device::open(cards().library(), bus_id);
                char byte = device ? 'y' : 'n';
                (void)!write(m_begun[1], &byte, 1);
                (void)!read(m_over[0], &byte, 1); // until the parent closes the pipe
                _exit(0);
            }
            ::close(m_over[0]);
            char byte = 'n';
            if (read(m_begun[0], &byte, 1) != 1 || byte != 'y')
                throw std::runtime_error("the other process cannot open the card");
        }
        ~HeldCard() { close(); }
        HeldCard(const HeldCard &) = delete;
        HeldCard &operator=(const HeldCard &) = delete;
        void close() {
            if (m_process <= 0)
                return;
            ::close(m_over[1]);
            waitpid(std::exchange(m_process, 0), nullptr, 0);
        }

    private:
        int m_begun[2], m_over[2];
        pid_t m_process;
    };
    static HeldCard hold_elsewhere(std::size_t index) { return HeldCard(card(index).bus_id()); }
};

TEST_F(CardOpen, concurrent_opens_open_the_card_once) {
    std::vector<std::thread> threads;
    std::vector<int> descriptors(8, -1);
    Card &shared = card();
    for (int &descriptor : descriptors)
        threads.emplace_back([&descriptor, &shared] { descriptor = value(shared.open())->device().fd(); });
    for (std::thread &thread : threads)
        thread.join();
    for (const int descriptor : descriptors)
        EXPECT_EQ(descriptor, value(shared.open())->device().fd());
    EXPECT_TRUE(shared.is_open());
    EXPECT_EQ(Counters(shared).calls("open"), 1u);
    EXPECT_EQ(Counters(shared)["opens"], 1u);
}

TEST_F(CardOpen, card_in_reset_is_waited_for) {
    set("SOFTGAUDI_FAULTS", "open#1=EAGAIN;open#2=EAGAIN");
    EXPECT_TRUE(card().open());
    EXPECT_EQ(Counters(card()).calls("open"), 3u);
}

/// Cards in reset, and what is reported about them.
class CardReset : public CardOpen {
protected:
    static void wait_at_most(std::chrono::milliseconds limit) {
        change_settings([&](Settings &settings) {
            settings.open_timeout_ms = {static_cast<std::uint64_t>(limit.count()), "OPEN_TIMEOUT"};
        });
    }
    static std::vector<std::uint64_t> count_tries() {
        std::vector<std::uint64_t> all;
        for (const auto &each : cards().all())
            all.push_back(Counters(*each).calls("open"));
        return all;
    }
    const thunk::Reported m_reported;
};

TEST_F(CardReset, wait_for_all_cards_tries_them_in_turn) {
    set("SOFTGAUDI_FAULTS", "open=EAGAIN");
    wait_at_most(2s);
    const auto chosen = cards().choose_default();
    ASSERT_FALSE(chosen);
    EXPECT_EQ(chosen.error().code, EAGAIN);
    EXPECT_THAT(chosen.error().text, HasSubstr("is being reset"));
    const auto tries = count_tries();
    EXPECT_GE(tries.front(), 2u);
    EXPECT_THAT(tries, Each(tries.front())) << "cards are tried in turn";
    ASSERT_THAT(m_reported.errors(), SizeIs(1));
    EXPECT_THAT(m_reported.errors().front().text,
                AllOf(HasSubstr("waiting for one of 8 cards"), HasSubstr("2 s in all"), HasSubstr("OPEN_TIMEOUT")));
}

TEST_F(CardReset, limit_of_0_refuses_at_once) {
    set("SOFTGAUDI_FAULTS", "open=EAGAIN");
    wait_at_most(0ms);
    EXPECT_FALSE(cards().choose_default());
    EXPECT_FALSE(card(3).open());
    EXPECT_THAT(count_tries(), ElementsAre(1, 1, 1, 2, 1, 1, 1, 1));
    EXPECT_THAT(m_reported.errors(), IsEmpty());
}

TEST_F(CardReset, free_card_is_chosen_without_a_wait) {
    std::string faults;
    for (unsigned module = 0; module < 8; ++module)
        if (module != 4)
            faults += "open@" + std::to_string(module) + "=EAGAIN;";
    set("SOFTGAUDI_FAULTS", faults);
    EXPECT_EQ(value(cards().choose_default()), &card(4));
    EXPECT_THAT(count_tries(), ElementsAre(1, 1, 1, 1, 1, 0, 0, 0)) << "each card once: there was no wait";
    EXPECT_THAT(m_reported.errors(), IsEmpty());
}

TEST_F(CardReset, card_whose_reset_ends_is_chosen) {
    std::string faults;
    for (unsigned module = 0; module < 8; ++module)
        faults += "open@" + std::to_string(module) + "#1" + (module == 5 ? "" : "+") + "=EAGAIN;"; // that of 5 ends
    set("SOFTGAUDI_FAULTS", faults);
    EXPECT_EQ(value(cards().choose_default()), &card(5));
}

TEST_F(CardReset, waits_for_several_cards_share_one_limit) {
    using Clock = std::chrono::steady_clock;
    wait_at_most(15s);
    OpenWait wait;
    const Clock::time_point begin = Clock::now();
    EXPECT_EQ(wait.join(begin), begin + 15s);
    EXPECT_EQ(wait.join(begin + 10s), begin + 15s) << "a second card gets what is left";
    EXPECT_EQ(wait.join(begin + 20s), begin + 15s) << "nothing is left";
    EXPECT_EQ(wait.join(begin + 31s), begin + 46s) << "a reset much later has its own limit";
}

TEST_F(CardReset, next_reset_has_a_limit_of_its_own) {
    using Clock = std::chrono::steady_clock;
    wait_at_most(15s);
    OpenWait wait;
    OpenWait::Turn turn(wait);
    EXPECT_TRUE(turn.pause("card"));
    turn.succeeded();
    const Clock::time_point later = Clock::now() + 20s;
    EXPECT_EQ(wait.join(later), later + 15s);
}

TEST_F(CardReset, named_card_is_waited_for_and_reported) {
    set("SOFTGAUDI_FAULTS", "open=EAGAIN");
    wait_at_most(2s);
    const auto address = allocate(card(2), {.length = 1});
    ASSERT_FALSE(address);
    EXPECT_THAT(address.error().text, HasSubstr("is being reset"));
    ASSERT_THAT(m_reported.errors(), SizeIs(1));
    EXPECT_THAT(m_reported.errors().front().text, HasSubstr("waiting for card " + card(2).bus_id()));
    EXPECT_THAT(count_tries(), ElementsAre(0, 0, Ge(2u), 0, 0, 0, 0, 0));
}

TEST_F(CardReset, wait_does_not_block_detection) {
    std::string faults;
    for (unsigned nth = 1; nth <= 200; ++nth)
        faults += "open#" + std::to_string(nth) + "=EAGAIN;";
    set("SOFTGAUDI_FAULTS", faults);
    Card &shared = card();
    std::thread waiting([&] { EXPECT_TRUE(shared.open()); });
    EXPECT_TRUE(until([&] { return Counters(shared).calls("open") >= 2; }));
    EXPECT_FALSE(shared.find_session()) << "answered before the card was open";
    waiting.join();
    EXPECT_TRUE(shared.find_session());
}

TEST_F(CardOpen, card_in_use_is_refused_at_once) {
    const auto other = hold_elsewhere(2);
    const auto device = card(2).open();
    ASSERT_FALSE(device);
    EXPECT_EQ(device.error().code, EBUSY);
    EXPECT_THAT(device.error().text, AllOf(HasSubstr("card 2 (module 2) is in use"), HasSubstr(card(2).bus_id())));
    EXPECT_FALSE(card(2).is_open());
    EXPECT_EQ(Counters(card(2)).calls("open"), 2u) << "the other process's, and one try of this one";
    EXPECT_TRUE(card(3).open()) << "other cards open";
}

TEST_F(CardOpen, card_that_was_in_use_opens_later) {
    auto other = hold_elsewhere(0);
    EXPECT_FALSE(card().open());
    other.close();
    EXPECT_TRUE(card().open());
}

TEST_F(CardOpen, other_errors_are_returned_unchanged) {
    set("SOFTGAUDI_FAULTS", "open=EACCES");
    const auto device = card().open();
    ASSERT_FALSE(device);
    EXPECT_EQ(device.error().code, EACCES);
}

TEST_F(CardOpen, allocation_on_a_card_in_use_is_refused) {
    const auto other = hold_elsewhere(0);
    const auto address = allocate(card(), {.length = 1});
    ASSERT_FALSE(address);
    EXPECT_THAT(address.error().text, HasSubstr("is in use"));
    EXPECT_EQ(usage_of(card()).blocks, 0u);
}

TEST_F(CardOpen, default_card_is_an_open_one) {
    set("HLS_MODULE_ID", "1");
    value(card(5).open());
    EXPECT_EQ(value(cards().choose_default()), &card(5));
}

TEST_F(CardOpen, default_card_is_that_of_hls_module_id) {
    set("HLS_MODULE_ID", "6");
    EXPECT_EQ(value(cards().choose_default()), &card(6));
}

TEST_F(CardOpen, hls_module_id_in_use_is_replaced_by_a_free_card) {
    set("HLS_MODULE_ID", "1");
    const auto other = hold_elsewhere(1);
    EXPECT_EQ(value(cards().choose_default()), &card(0)) << "as PyTorch does";
}

TEST_F(CardOpen, hls_module_id_in_use_is_refused_where_modules_are_listed) {
    set("HLS_MODULE_ID", "5");
    set("HABANA_VISIBLE_MODULES", "4,5");
    const auto other = hold_elsewhere(1);
    Card *chosen = value(cards().choose_default());
    EXPECT_EQ(chosen->module_id(), 5u);
    const auto session = chosen->open();
    ASSERT_FALSE(session);
    EXPECT_THAT(session.error().text, HasSubstr("card 5 (module 5) is in use"));
}

TEST_F(CardOpen, hls_module_id_in_reset_is_waited_for) {
    set("HLS_MODULE_ID", "2");
    set("SOFTGAUDI_FAULTS", "open@2#1=EAGAIN");
    Card *chosen = value(cards().choose_default());
    EXPECT_EQ(chosen->module_id(), 2u) << "a reset ends soon, and the user named this card";
    value(chosen->open());
}

TEST_F(CardOpen, hls_module_id_outside_the_visible_modules_is_an_error) {
    set("HLS_MODULE_ID", "0");
    set("HABANA_VISIBLE_MODULES", "4,5");
    const auto chosen = cards().choose_default();
    ASSERT_FALSE(chosen);
    EXPECT_EQ(chosen.error().text, "HLS_MODULE_ID=0: there is no card 'module:0': give a module id (4, 5; "
                                   "HABANA_VISIBLE_MODULES=4,5 hides the others), module:N or a bus id");
}

TEST_F(CardOpen, default_card_is_one_of_the_visible_modules) {
    set("HABANA_VISIBLE_MODULES", "6,3");
    const auto other = hold_elsewhere(0); // module 3, the first that is visible
    EXPECT_EQ(value(cards().choose_default())->module_id(), 6u) << "0 is free, but not listed";
}

TEST_F(CardOpen, unknown_hls_module_id_is_an_error) {
    set("HLS_MODULE_ID", "12");
    const auto chosen = cards().choose_default();
    ASSERT_FALSE(chosen);
    EXPECT_THAT(chosen.error().text, HasSubstr("module:12"));
}

TEST_F(CardOpen, default_card_is_the_first_that_opens) {
    const auto first = hold_elsewhere(0), second = hold_elsewhere(1);
    EXPECT_EQ(value(cards().choose_default()), &card(2));
    EXPECT_TRUE(card(2).is_open());
}

TEST_F(CardOpen, default_card_is_refused_when_each_is_in_use) {
    set("SOFTGAUDI_CARDS", "2");
    const auto first = hold_elsewhere(0), second = hold_elsewhere(1);
    const auto chosen = cards().choose_default();
    ASSERT_FALSE(chosen);
    EXPECT_THAT(chosen.error().text, HasSubstr("is in use"));
}

} // namespace
