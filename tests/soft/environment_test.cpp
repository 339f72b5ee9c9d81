// SPDX-License-Identifier: BSD-3-Clause
// A wrong environment: no card opens, and the reason is printed once.
#include "soft.h"

#include <gmock/gmock.h>

using namespace soft;
using testing::HasSubstr;

namespace {

class Environment : public SoftTest {
protected:
    /// Tries every way to open a card, all of which fail, and returns what was printed.
    static std::string print_of_failed_opens() {
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

TEST_F(Environment, unknown_model_is_reported_once_and_no_card_opens) {
    set("SOFTGAUDI_MODEL", "gaudi1");
    expect_one_sentence(print_of_failed_opens(), "SOFTGAUDI_MODEL");
}

TEST_F(Environment, missing_profile_is_reported_once_and_no_card_opens) {
    set("SOFTGAUDI_PROFILE", "/nonexistent/report.json");
    expect_one_sentence(print_of_failed_opens(),
                        "SOFTGAUDI_PROFILE=/nonexistent/report.json: cannot read it: No such file or directory");
}

TEST_F(Environment, directory_outside_tmpfs_is_reported_once_and_no_card_opens) {
    set("SOFTGAUDI_DIR", "/proc/self");
    expect_one_sentence(print_of_failed_opens(), "SOFTGAUDI_DIR");
}

TEST_F(Environment, unusable_directory_is_reported_once_and_no_card_opens) {
    close(open((dir() + "/GAUDI2-card0").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    expect_one_sentence(print_of_failed_opens(), dir().c_str());
}

TEST_F(Environment, fault_in_unknown_function_is_reported_once_and_no_card_opens) {
    set("SOFTGAUDI_FAULTS", "hlthunk_teleport=EIO");
    expect_one_sentence(print_of_failed_opens(),
                        "SOFTGAUDI_FAULTS: 'hlthunk_teleport=EIO': no fault can be set for this function");
}

TEST_F(Environment, hang_of_an_allocation_is_reported_once_and_no_card_opens) {
    set("SOFTGAUDI_FAULTS", "device_memory_alloc=hang");
    expect_one_sentence(print_of_failed_opens(),
                        "SOFTGAUDI_FAULTS: 'device_memory_alloc=hang': only command_submission and "
                        "command_submission_timeout can hang");
}

TEST_F(Environment, library_memory_works_without_a_server) {
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

TEST_F(Environment, correct_settings_print_nothing) {
    testing::internal::CaptureStderr();
    {
        Card card;
        card.run(kOnCard, Packets().nop());
    }
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

} // namespace
