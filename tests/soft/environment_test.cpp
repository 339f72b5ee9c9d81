// SPDX-License-Identifier: BSD-3-Clause
// A mistake in the environment: no card can be had, and the program's user is told why, once.
#include "soft.h"

#include <gmock/gmock.h>

using namespace soft;
using testing::HasSubstr;

namespace {

class Environment : public SoftTest {
protected:
    /// All ways to a card fail, and what they say about it.
    static std::string complaint() {
        testing::internal::CaptureStderr();
        errno = 0;
        EXPECT_EQ(hlthunk_open(HLTHUNK_DEVICE_DONT_CARE, nullptr), -1);
        EXPECT_NE(errno, 0);
        EXPECT_LT(hlthunk_open(HLTHUNK_DEVICE_DONT_CARE, "0000:19:00.0"), 0);
        EXPECT_LT(hlthunk_open_by_module_id(0), 0);
        EXPECT_LT(hlthunk_open_control(0, nullptr), 0);
        EXPECT_LT(hlthunk_open_control(0, "0000:19:00.0"), 0);
        EXPECT_LT(hlthunk_open_control_by_name(HLTHUNK_DEVICE_DONT_CARE, nullptr), 0);
        EXPECT_LT(hlthunk_open_control_by_module_id(0), 0);
        EXPECT_LT(hlthunk_open_control_by_bus_id("0000:19:00.0"), 0);
        EXPECT_EQ(hlthunk_get_device_count(HLTHUNK_DEVICE_DONT_CARE), 0);
        EXPECT_LT(hlthunk_get_device_index_from_pci_bus_id("0000:19:00.0"), 0);
        return testing::internal::GetCapturedStderr();
    }
    static void expect_one_sentence(const std::string &text, const char *variable) {
        EXPECT_THAT(text, HasSubstr("softgaudi: "));
        EXPECT_THAT(text, HasSubstr(variable));
        EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
    }
};

TEST_F(Environment, a_bad_model_is_said_once_and_no_card_opens) {
    set("SOFTGAUDI_MODEL", "gaudi1");
    expect_one_sentence(complaint(), "SOFTGAUDI_MODEL");
}

TEST_F(Environment, a_directory_on_a_disk_is_said_once_and_no_card_opens) {
    set("SOFTGAUDI_DIR", "/proc/self");
    expect_one_sentence(complaint(), "SOFTGAUDI_DIR");
}

TEST_F(Environment, a_directory_that_cannot_be_written_is_said_once_and_no_card_opens) {
    close(open((dir() + "/GAUDI2-card0").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    expect_one_sentence(complaint(), dir().c_str());
}

TEST_F(Environment, a_fault_in_no_function_is_said_once_and_no_card_opens) {
    set("SOFTGAUDI_FAULTS", "hlthunk_teleport=EIO");
    expect_one_sentence(complaint(), "SOFTGAUDI_FAULTS: 'hlthunk_teleport=EIO': no fault can be set for this function");
}

TEST_F(Environment, a_hang_of_what_cannot_hang_is_said_once_and_no_card_opens) {
    set("SOFTGAUDI_FAULTS", "device_memory_alloc=hang");
    expect_one_sentence(complaint(), "SOFTGAUDI_FAULTS: 'device_memory_alloc=hang': only command_submission and "
                                     "command_submission_timeout can hang");
}

TEST_F(Environment, memory_of_the_library_works_without_a_server) {
    set("SOFTGAUDI_MODEL", "gaudi1");
    testing::internal::CaptureStderr();
    auto *bytes = static_cast<unsigned char *>(hlthunk_malloc(100));
    ASSERT_NE(bytes, nullptr);
    EXPECT_EQ(bytes[99], 0);
    hlthunk_free(bytes);
    char *version = hlthunk_get_version();
    EXPECT_NE(version, nullptr);
    hlthunk_free(version);
    expect_one_sentence(testing::internal::GetCapturedStderr(), "SOFTGAUDI_MODEL");
}

TEST_F(Environment, a_good_one_says_nothing) {
    testing::internal::CaptureStderr();
    {
        Card card;
        card.run(kOnCard, Packets().nop());
    }
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

} // namespace
