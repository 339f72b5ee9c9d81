// SPDX-License-Identifier: BSD-3-Clause
// When the driver refuses a call of a copy, the copy fails, the cause is logged once, and later copies succeed as soon as
// the driver accepts them.
#include "uct_side.h"

#include <stdlib.h>

#include <set>
#include <string>

using namespace uct_side;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace {

constexpr unsigned kSelfTestSubmissions = 34; // before the first copy

class Refusal : public ::testing::Test {
protected:
    static void set_faults(const std::string &rules) { setenv("SOFTGAUDI_FAULTS", rules.c_str(), 1); }

    e2e::Printed m_printed;
};

class RefusedSubmission : public Refusal, public ::testing::WithParamInterface<const char *> {};

TEST_P(RefusedSubmission, fails_one_copy_with_one_message) {
    set_faults("command_submission#" + std::to_string(kSelfTestSubmissions + 2) + "=" + GetParam());
    Domain domain;
    const Transport transport(domain);
    const Buffer buffer(domain, kMiB);
    const Bytes bytes = pattern(kMiB, 1);
    EXPECT_EQ(transport.put(bytes.data(), buffer.address(), kKiB), UCS_OK);
    EXPECT_EQ(transport.put(bytes.data(), buffer.address(), kKiB), UCS_ERR_IO_ERROR);
    EXPECT_EQ(transport.put(bytes.data(), buffer.address(), kKiB), UCS_OK);
    transport.write(buffer, bytes);
    EXPECT_EQ(transport.read(buffer, kMiB), bytes);
    EXPECT_THAT(m_printed.complaints(),
                ElementsAre(AllOf(HasSubstr("hlthunk_command_submission"), HasSubstr(GetParam()))));
}

INSTANTIATE_TEST_SUITE_P(, RefusedSubmission, ::testing::Values("EIO", "EBUSY", "EPERM"),
                         [](const auto &how) { return std::string(how.param); });

/// The bounce ring is mapped fourth, after the command ring and the buffers of the self-test.
class UnmappableStaging : public Refusal, public ::testing::WithParamInterface<const char *> {
protected:
    UnmappableStaging() { set_faults(std::string("host_memory_map#4=") + GetParam()); }
    /// One for the copies, or one for each reason, the driver's refusal and the end of the session: UCX's thread may close
    /// the card meanwhile, with a message for the card, which may come later, and one for its memory.
    void expect_one_message() const {
        std::set<std::string> reasons;
        unsigned of_copies = 0, of_card = 0, of_memory = 0;
        for (const std::string &line : m_printed.complaints()) {
            if (const std::size_t reason = line.find("the memory to stage copies in"); reason != line.npos) {
                ++of_copies;
                reasons.insert(line.substr(reason));
            } else if (line.find("it was closed") != line.npos) {
                ++of_card;
            } else if (line.find("free its memory and allocate again") != line.npos) {
                ++of_memory;
            } else {
                ADD_FAILURE() << line;
            }
        }
        EXPECT_GE(of_copies, 1u);
        EXPECT_EQ(of_copies, reasons.size()) << "a reason was repeated";
        EXPECT_LE(of_copies, 2u);
        EXPECT_LE(of_card, 1u);
        EXPECT_LE(of_memory, 1u);
    }
};

TEST_P(UnmappableStaging, fails_short_copies_with_one_message) {
    Domain domain;
    const Transport transport(domain);
    const Buffer buffer(domain, kMiB);
    Bytes bytes(kKiB);
    for (int i = 0; i < 5; ++i) {
        EXPECT_NE(uct_ep_put_short(transport.ep(), bytes.data(), kKiB, buffer.address(), UCT_INVALID_RKEY), UCS_OK);
        EXPECT_NE(uct_ep_get_short(transport.ep(), bytes.data(), kKiB, buffer.address(), UCT_INVALID_RKEY), UCS_OK);
    }
    expect_one_message();
}

TEST_P(UnmappableStaging, fails_posted_copies_with_one_message) {
    Domain domain;
    const Transport transport(domain);
    const Buffer buffer(domain, kMiB);
    Bytes bytes(kMiB);
    for (const std::size_t length : {kKiB, kMiB, kKiB, kMiB}) {
        EXPECT_NE(transport.put(bytes.data(), buffer.address(), length), UCS_OK) << length;
        EXPECT_NE(transport.get(bytes.data(), buffer.address(), length), UCS_OK) << length;
    }
    expect_one_message();
}

INSTANTIATE_TEST_SUITE_P(, UnmappableStaging, ::testing::Values("lose", "reset"),
                         [](const auto &how) { return std::string(how.param); });

} // namespace
