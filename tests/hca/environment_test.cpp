// SPDX-License-Identifier: BSD-3-Clause
// A wrong variable is one sentence on stderr, and then there are no devices.
#include "hca.h"

using namespace hca;

namespace {

class Environment : public HcaTest {
protected:
    /// What the library says when it counts its devices.
    std::string said(int devices = 0) {
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

TEST_F(Environment, that_is_right_makes_no_noise) { EXPECT_EQ(said(2), ""); }

TEST_F(Environment, the_directory_is_made) {
    set("SOFTHCA_DIR", fabric() + "/new");
    EXPECT_EQ(said(2), "");
    EXPECT_TRUE(std::filesystem::exists(fabric() + "/new/fabric"));
}

TEST_F(Environment, the_usual_directory_must_be_private) {
    unsetenv("SOFTHCA_DIR");
    set("XDG_RUNTIME_DIR", fabric());
    std::filesystem::create_directory(fabric() + "/softhca");
    std::filesystem::permissions(fabric() + "/softhca", std::filesystem::perms::all);
    EXPECT_EQ(said(),
              "softhca: " + fabric() +
                  "/softhca: must be a directory of this user with mode 0700; set SOFTHCA_DIR to another directory\n");
}

TEST_F(Environment, the_usual_directory_is_under_the_runtime_directory) {
    unsetenv("SOFTHCA_DIR");
    set("XDG_RUNTIME_DIR", fabric());
    EXPECT_EQ(said(2), "");
    EXPECT_TRUE(std::filesystem::exists(fabric() + "/softhca/fabric"));
}

TEST_F(Environment, a_fabric_of_another_version_is_refused) {
    EXPECT_EQ(said(2), "");
    Child other([&](int) {
        const int fd = open((fabric() + "/fabric").c_str(), O_RDWR);
        const uint32_t magic = 7;
        EXPECT_EQ(pwrite(fd, &magic, sizeof magic, 0), 4);
        close(fd);
        EXPECT_EQ(said(), "softhca: cannot set up " + fabric() + "/fabric: created by another version; remove it\n");
        return HasFailure() ? 1 : 0;
    });
    EXPECT_EQ(other.join(), 0);
}

TEST_F(Environment, a_fabric_that_cannot_be_made_is_said) {
    std::filesystem::create_directory(fabric() + "/fabric");
    EXPECT_EQ(said(), "softhca: cannot set up " + fabric() + "/fabric: Is a directory\n");
}

TEST_F(Environment, a_virtual_clock_that_cannot_be_made_is_said) {
    set("SOFTHCA_PACE", "virtual:link:25");
    std::filesystem::create_directory(dir() + "/clock");
    EXPECT_EQ(said(), "softhca: cannot map " + dir() + "/clock: Is a directory\n");
}

struct Wrong {
    const char *test, *variable, *value, *sentence;
};
void PrintTo(const Wrong &one, std::ostream *out) { *out << one.test; } // not its address: that differs at each start

class Value : public Environment, public ::testing::WithParamInterface<Wrong> {};

TEST_P(Value, is_refused) {
    set(GetParam().variable, GetParam().value);
    EXPECT_EQ(said(), std::string("softhca: ") + GetParam().variable + GetParam().sentence + "\n");
}

const Wrong kWrong[] = {
    {"devices_are_a_number", "SOFTHCA_DEVICES", "many", "=many: expected a number from 0 to 4"},
    {"devices_are_not_too_many", "SOFTHCA_DEVICES", "5", "=5: expected a number from 0 to 4"},
    {"a_directory_is_one", "SOFTHCA_DIR", "/dev/null", "=/dev/null: is not a directory"},
    {"a_directory_is_possible", "SOFTHCA_DIR", "/nowhere/at/all",
     "=/nowhere/at/all: cannot create the directory: No such file or directory"},
    {"a_directory_is_in_memory", "SOFTHCA_DIR", "/proc", "=/proc: must be on tmpfs, because processes share its files"},
    {"pace_has_numbers", "SOFTHCA_PACE", "link", ": 'link': expected NAME:NUMBER, for example link:25"},
    {"pace_has_names", "SOFTHCA_PACE", "down:3", ": 'down': unknown name; expected link (GB/s) or latency (us)"},
    {"pace_of_a_link_is_possible", "SOFTHCA_PACE", "link:0", ": 'link:0': must be at least 1e-06 GB/s"},
    {"pace_of_latency_is_possible", "SOFTHCA_PACE", "latency:1e10", ": 'latency:1e10': must be at most 1000000000 us"},
    {"a_fault_has_an_action", "SOFTHCA_FAULTS", "reg_mr", ": 'reg_mr': expected FUNCTION[@DEVICE][#NTH[+]]=ACTION"},
    {"a_fault_counts_from_one", "SOFTHCA_FAULTS", "reg_mr#0=ENOMEM",
     ": 'reg_mr#0=ENOMEM': the call number after '#' must be 1 or more"},
    {"a_fault_names_a_device_that_can_be", "SOFTHCA_FAULTS", "reg_mr@4=ENOMEM",
     ": 'reg_mr@4=ENOMEM': the device after '@' must be a number from 0 to 3"},
    {"a_fault_names_a_function", "SOFTHCA_FAULTS", "walk=ENOMEM",
     ": 'walk=ENOMEM': no fault can be set for this function"},
    {"a_fault_names_one_function", "SOFTHCA_FAULTS", "*=ENOMEM", ": '*=ENOMEM': no fault can be set for this function"},
    {"a_fault_has_a_known_action", "SOFTHCA_FAULTS", "reg_mr=explode",
     ": 'reg_mr=explode': unknown action; expected an errno name, limit:COUNT, link_down, link_up, qp_error or "
     "device_fatal"},
    {"only_posting_breaks_a_queue_pair", "SOFTHCA_FAULTS", "reg_mr=qp_error",
     ": 'reg_mr=qp_error': qp_error is for post_send and post_recv"},
    {"only_registrations_have_a_limit", "SOFTHCA_FAULTS", "post_send=limit:3",
     ": 'post_send=limit:3': limit:COUNT is for reg_mr and reg_dmabuf_mr"},
};
INSTANTIATE_TEST_SUITE_P(Where, Value, ::testing::ValuesIn(kWrong),
                         [](const auto &param) { return std::string(param.param.test); });

} // namespace
