// SPDX-License-Identifier: BSD-3-Clause
// Opening a card: at the first need, once, and which one when nobody says.
#include "gaudi.h"

#include "gaudi/settings.h"
#include "thunk/reported.h"

#include <gmock/gmock.h>

#include <sys/wait.h>

#include <thread>

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
    /// Another process's, for as long as it lives.
    class Held {
    public:
        explicit Held(const std::string &bus_id) {
            if (pipe(m_begun) != 0 || pipe(m_over) != 0 || (m_process = fork()) < 0)
                throw std::runtime_error("no other process");
            if (m_process == 0) {
                ::close(m_over[1]);
                const auto device = thunk::Device::open(cards().library(), bus_id);
                char byte = device ? 'y' : 'n';
                (void)!write(m_begun[1], &byte, 1);
                (void)!read(m_over[0], &byte, 1); // its end
                _exit(0);
            }
            ::close(m_over[0]);
            char byte = 'n';
            if (read(m_begun[0], &byte, 1) != 1 || byte != 'y')
                throw std::runtime_error("the other process cannot open the card");
        }
        ~Held() { close(); }
        Held(const Held &) = delete;
        Held &operator=(const Held &) = delete;
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
    static Held held(std::size_t index) { return Held(card(index).bus_id()); }
};

TEST_F(CardOpen, a_card_is_opened_once_however_many_ask) {
    std::vector<std::thread> threads;
    std::vector<int> descriptors(8, -1);
    Card &shared = card();
    for (int &descriptor : descriptors)
        threads.emplace_back([&descriptor, &shared] { descriptor = value(shared.open()).fd(); });
    for (std::thread &thread : threads)
        thread.join();
    for (const int descriptor : descriptors)
        EXPECT_EQ(descriptor, value(shared.open()).fd());
    EXPECT_TRUE(shared.is_open());
    EXPECT_EQ(Counters(shared).calls("open"), 1u);
    EXPECT_EQ(Counters(shared)["opens"], 1u);
}

TEST_F(CardOpen, a_card_in_reset_is_waited_for) {
    set("SOFTGAUDI_FAULTS", "open#1=EAGAIN;open#2=EAGAIN");
    EXPECT_TRUE(card().open());
    EXPECT_EQ(Counters(card()).calls("open"), 3u);
}

/// Cards in reset, and what is printed about them.
class CardReset : public CardOpen {
protected:
    static void wait_at_most(std::chrono::milliseconds limit) {
        settings().open_timeout_ms = static_cast<std::uint64_t>(limit.count());
    }
    static std::vector<std::uint64_t> tries() {
        std::vector<std::uint64_t> all;
        for (const auto &each : cards().all())
            all.push_back(Counters(*each).calls("open"));
        return all;
    }
    const thunk::Reported m_reported;
};

TEST_F(CardReset, of_all_cards_for_good_is_waited_for_once_with_all_cards_tried_in_turn) {
    set("SOFTGAUDI_FAULTS", "open=EAGAIN");
    wait_at_most(2s);
    const auto usual = cards().usual();
    ASSERT_FALSE(usual);
    EXPECT_EQ(usual.error().code, EAGAIN);
    EXPECT_THAT(usual.error().text, HasSubstr("is being reset"));
    const auto once = tries();
    EXPECT_GE(once.front(), 2u);
    EXPECT_THAT(once, Each(once.front())) << "in rounds";
    ASSERT_THAT(m_reported.errors(), SizeIs(1));
    EXPECT_THAT(m_reported.errors().front().text,
                AllOf(HasSubstr("waiting for one of 8 cards"), HasSubstr("2 s in all"),
                      HasSubstr("UCX_GAUDI_COPY_OPEN_TIMEOUT")));
}

TEST_F(CardReset, with_a_limit_of_0_is_refused_at_once) {
    set("SOFTGAUDI_FAULTS", "open=EAGAIN");
    wait_at_most(0ms);
    EXPECT_FALSE(cards().usual());
    EXPECT_FALSE(card(3).open());
    EXPECT_THAT(tries(), ElementsAre(1, 1, 1, 2, 1, 1, 1, 1));
    EXPECT_THAT(m_reported.errors(), IsEmpty());
}

TEST_F(CardReset, of_other_cards_does_not_keep_from_a_free_one) {
    std::string faults;
    for (unsigned device = 0; device < 8; ++device)
        if (device != 7) // on the server, which is module 4
            faults += "open@" + std::to_string(device) + "=EAGAIN;";
    set("SOFTGAUDI_FAULTS", faults);
    EXPECT_EQ(value(cards().usual()), &card(4));
    EXPECT_THAT(tries(), ElementsAre(1, 1, 1, 1, 1, 0, 0, 0)) << "each once, so that nothing was waited for";
    EXPECT_THAT(m_reported.errors(), IsEmpty());
}

TEST_F(CardReset, that_ends_gives_the_card) {
    std::string faults;
    for (unsigned device = 0; device < 8; ++device)
        faults += "open@" + std::to_string(device) + "#1" + (device == 6 ? "" : "+") + "=EAGAIN;"; // module 5's ends
    set("SOFTGAUDI_FAULTS", faults);
    EXPECT_EQ(value(cards().usual()), &card(5));
}

TEST_F(CardReset, of_one_card_after_another_shares_one_limit) {
    using Clock = std::chrono::steady_clock;
    wait_at_most(15s);
    OpenWait wait;
    const Clock::time_point begin = Clock::now();
    EXPECT_EQ(wait.join(begin), begin + 15s);
    EXPECT_EQ(wait.join(begin + 10s), begin + 15s) << "a second card gets what is left";
    EXPECT_EQ(wait.join(begin + 20s), begin + 15s) << "nothing, that is";
    EXPECT_EQ(wait.join(begin + 31s), begin + 46s) << "but a reset much later is another one";
}

TEST_F(CardReset, that_ended_leaves_the_next_one_its_whole_limit) {
    using Clock = std::chrono::steady_clock;
    wait_at_most(15s);
    OpenWait wait;
    OpenWait::Turn turn(wait);
    EXPECT_TRUE(turn.pause("card"));
    turn.succeeded();
    const Clock::time_point later = Clock::now() + 20s;
    EXPECT_EQ(wait.join(later), later + 15s);
}

TEST_F(CardReset, of_a_named_card_is_waited_for_and_named) {
    set("SOFTGAUDI_FAULTS", "open=EAGAIN");
    wait_at_most(2s);
    const auto address = card(2).arena().allocate({.length = 1});
    ASSERT_FALSE(address);
    EXPECT_THAT(address.error().text, HasSubstr("is being reset"));
    ASSERT_THAT(m_reported.errors(), SizeIs(1));
    EXPECT_THAT(m_reported.errors().front().text, HasSubstr("waiting for card " + card(2).bus_id()));
    EXPECT_THAT(tries(), ElementsAre(0, 0, Ge(2u), 0, 0, 0, 0, 0));
}

TEST_F(CardReset, is_waited_for_without_the_lock_that_detection_takes) {
    std::string faults;
    for (unsigned nth = 1; nth <= 200; ++nth)
        faults += "open#" + std::to_string(nth) + "=EAGAIN;";
    set("SOFTGAUDI_FAULTS", faults);
    Card &shared = card();
    std::thread waiting([&] { EXPECT_TRUE(shared.open()); });
    EXPECT_TRUE(until([&] { return Counters(shared).calls("open") >= 2; }));
    EXPECT_FALSE(shared.if_held()) << "answered before the card was open";
    waiting.join();
    EXPECT_TRUE(shared.if_held());
}

TEST_F(CardOpen, a_card_in_use_is_refused_at_once_with_a_sentence) {
    const auto other = held(2);
    const auto device = card(2).open();
    ASSERT_FALSE(device);
    EXPECT_EQ(device.error().code, EBUSY);
    EXPECT_THAT(device.error().text, AllOf(HasSubstr("card 2 (module 2) is in use"), HasSubstr(card(2).bus_id())));
    EXPECT_FALSE(card(2).is_open());
    EXPECT_EQ(Counters(card(2)).calls("open"), 2u) << "theirs and one try of ours";
    EXPECT_TRUE(card(3).open()) << "the others work";
}

TEST_F(CardOpen, a_card_that_was_in_use_can_be_opened_later) {
    auto other = held(0);
    EXPECT_FALSE(card().open());
    other.close();
    EXPECT_TRUE(card().open());
}

TEST_F(CardOpen, other_errors_come_as_they_are) {
    set("SOFTGAUDI_FAULTS", "open=EACCES");
    const auto device = card().open();
    ASSERT_FALSE(device);
    EXPECT_EQ(device.error().code, EACCES);
}

TEST_F(CardOpen, an_allocation_on_a_card_in_use_says_so) {
    const auto other = held(0);
    const auto address = card().arena().allocate({.length = 1});
    ASSERT_FALSE(address);
    EXPECT_THAT(address.error().text, HasSubstr("is in use"));
    EXPECT_EQ(card().arena().usage().blocks, 0u);
}

TEST_F(CardOpen, the_usual_card_is_one_that_is_open) {
    set("HLS_MODULE_ID", "1");
    value(card(5).open());
    EXPECT_EQ(value(cards().usual()), &card(5));
}

TEST_F(CardOpen, the_usual_card_is_else_the_one_of_hls_module_id) {
    set("HLS_MODULE_ID", "6");
    EXPECT_EQ(value(cards().usual()), &card(6));
    EXPECT_FALSE(card(6).is_open()) << "choosing needs no opening";
}

TEST_F(CardOpen, an_hls_module_id_that_is_not_there_is_an_error) {
    set("HLS_MODULE_ID", "12");
    const auto usual = cards().usual();
    ASSERT_FALSE(usual);
    EXPECT_THAT(usual.error().text, HasSubstr("module:12"));
}

TEST_F(CardOpen, the_usual_card_is_else_the_first_that_opens) {
    const auto first = held(0), second = held(1);
    EXPECT_EQ(value(cards().usual()), &card(2));
    EXPECT_TRUE(card(2).is_open());
}

TEST_F(CardOpen, when_every_card_is_in_use_the_sentence_says_that) {
    set("SOFTGAUDI_CARDS", "2");
    const auto first = held(0), second = held(1);
    const auto usual = cards().usual();
    ASSERT_FALSE(usual);
    EXPECT_THAT(usual.error().text, HasSubstr("is in use"));
}

} // namespace
