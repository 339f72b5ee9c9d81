// SPDX-License-Identifier: BSD-3-Clause
// A wrong variable prints one sentence on stderr and leaves no devices.
#include "hca.h"

using namespace hca;

namespace {

class Environment : public HcaTest {
protected:
    /// What the library prints when it lists its devices.
    std::string printed(int devices = 0) {
        ::testing::internal::CaptureStderr();
        for (int i = 0; i < 2; ++i) {
            int count = -1;
            ibv_free_device_list(ibv_get_device_list(&count));
            EXPECT_EQ(count, devices);
        }
        std::string text = ::testing::internal::GetCapturedStderr();
        EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 1) << text;
        return text;
    }
};

TEST_F(Environment, correct_settings_print_nothing) { EXPECT_EQ(printed(2), ""); }

TEST_F(Environment, missing_directory_is_created) {
    set("SOFTHCA_DIR", fabric() + "/new");
    EXPECT_EQ(printed(2), "");
    EXPECT_TRUE(std::filesystem::exists(fabric() + "/new/fabric"));
}

TEST_F(Environment, default_directory_with_open_mode_is_refused) {
    unsetenv("SOFTHCA_DIR");
    set("XDG_RUNTIME_DIR", fabric());
    std::filesystem::create_directory(fabric() + "/softhca");
    std::filesystem::permissions(fabric() + "/softhca", std::filesystem::perms::all);
    EXPECT_EQ(printed(),
              "softhca: " + fabric() +
                  "/softhca: must be a directory of this user with mode 0700; set SOFTHCA_DIR to another directory\n");
}

TEST_F(Environment, default_directory_is_under_the_runtime_directory) {
    unsetenv("SOFTHCA_DIR");
    set("XDG_RUNTIME_DIR", fabric());
    EXPECT_EQ(printed(2), "");
    EXPECT_TRUE(std::filesystem::exists(fabric() + "/softhca/fabric"));
}

TEST_F(Environment, fabric_of_another_version_is_refused) {
    EXPECT_EQ(printed(2), "");
    Child other([&](int) {
        const int fd = open((fabric() + "/fabric").c_str(), O_RDWR);
        const uint32_t magic = 7;
        EXPECT_EQ(pwrite(fd, &magic, sizeof magic, 0), 4);
        close(fd);
        EXPECT_EQ(printed(), "softhca: cannot set up " + fabric() + "/fabric: created by another version; remove it\n");
        return HasFailure() ? 1 : 0;
    });
    EXPECT_EQ(other.join(), 0);
}

TEST_F(Environment, failure_to_create_the_fabric_is_reported) {
    std::filesystem::create_directory(fabric() + "/fabric");
    EXPECT_EQ(printed(), "softhca: cannot set up " + fabric() + "/fabric: Is a directory\n");
}

TEST_F(Environment, failure_to_create_the_virtual_clock_is_reported) {
    set("SOFTHCA_PACE", "virtual:link:25");
    std::filesystem::create_directory(dir() + "/clock");
    EXPECT_EQ(printed(), "softhca: cannot map " + dir() + "/clock: Is a directory\n");
}

struct Wrong {
    const char *test, *variable, *value, *sentence;
};
void PrintTo(const Wrong &one, std::ostream *out) { *out << one.test; } // an address would differ in every run

class Setting : public Environment, public ::testing::WithParamInterface<Wrong> {};

TEST_P(Setting, wrong_text_is_refused) {
    set(GetParam().variable, GetParam().value);
    EXPECT_EQ(printed(), std::string("softhca: ") + GetParam().variable + GetParam().sentence + "\n");
}

const Wrong kWrong[] = {
    {"devices_not_a_number", "SOFTHCA_DEVICES", "many", "=many: expected a number from 0 to 4"},
    {"too_many_devices", "SOFTHCA_DEVICES", "5", "=5: expected a number from 0 to 4"},
    {"file_as_directory", "SOFTHCA_DIR", "/dev/null", "=/dev/null: is not a directory"},
    {"directory_that_cannot_be_created", "SOFTHCA_DIR", "/nowhere/at/all",
     "=/nowhere/at/all: cannot create the directory: No such file or directory"},
    {"directory_outside_tmpfs", "SOFTHCA_DIR", "/proc", "=/proc: must be on tmpfs, because processes share its files"},
    {"pace_without_number", "SOFTHCA_PACE", "link", ": 'link': expected NAME:NUMBER, for example link:25"},
    {"pace_with_unknown_name", "SOFTHCA_PACE", "down:3",
     ": 'down': unknown name; expected link (GB/s) or latency (us)"},
    {"link_too_slow", "SOFTHCA_PACE", "link:0", ": 'link:0': must be at least 1e-06 GB/s"},
    {"latency_too_long", "SOFTHCA_PACE", "latency:1e10", ": 'latency:1e10': must be at most 1000000000 us"},
    {"fault_without_action", "SOFTHCA_FAULTS", "reg_mr", ": 'reg_mr': expected FUNCTION[@DEVICE][#NTH[+]]=ACTION"},
    {"fault_at_call_zero", "SOFTHCA_FAULTS", "reg_mr#0=ENOMEM",
     ": 'reg_mr#0=ENOMEM': the call number after '#' must be 1 or more"},
    {"fault_of_unknown_device", "SOFTHCA_FAULTS", "reg_mr@4=ENOMEM",
     ": 'reg_mr@4=ENOMEM': the device after '@' must be a number from 0 to 3"},
    {"fault_of_unknown_function", "SOFTHCA_FAULTS", "walk=ENOMEM",
     ": 'walk=ENOMEM': no fault can be set for this function"},
    {"fault_of_every_function", "SOFTHCA_FAULTS", "*=ENOMEM", ": '*=ENOMEM': no fault can be set for this function"},
    {"unknown_fault_action", "SOFTHCA_FAULTS", "reg_mr=explode",
     ": 'reg_mr=explode': unknown action; expected an errno name, limit:COUNT, link_down, link_up, qp_error or "
     "device_fatal"},
    {"qp_error_outside_posting", "SOFTHCA_FAULTS", "reg_mr=qp_error",
     ": 'reg_mr=qp_error': qp_error is for post_send and post_recv"},
    {"limit_outside_registration", "SOFTHCA_FAULTS", "post_send=limit:3",
     ": 'post_send=limit:3': limit:COUNT is for reg_mr and reg_dmabuf_mr"},
};
INSTANTIATE_TEST_SUITE_P(Each, Setting, ::testing::ValuesIn(kWrong),
                         [](const auto &param) { return std::string(param.param.test); });

} // namespace
