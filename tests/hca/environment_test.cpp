// SPDX-License-Identifier: BSD-3-Clause
// A wrong variable is one sentence on stderr, and then there are no devices.
#include "hca.h"

#include <gmock/gmock.h>

using namespace hca;
using ::testing::HasSubstr;

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
    void refuses(const char *name, const std::string &value, const std::string &sentence) {
        set(name, value);
        EXPECT_EQ(said(), "softhca: " + sentence + "\n");
    }
};

TEST_F(Environment, that_is_right_makes_no_noise) { EXPECT_EQ(said(2), ""); }

TEST_F(Environment, devices_must_be_a_number) {
    refuses("SOFTHCA_DEVICES", "many", "SOFTHCA_DEVICES=many: wants a number from 0 to 4");
}

TEST_F(Environment, devices_must_not_be_too_many) {
    refuses("SOFTHCA_DEVICES", "5", "SOFTHCA_DEVICES=5: wants a number from 0 to 4");
}

TEST_F(Environment, the_directory_must_be_one) {
    refuses("SOFTHCA_DIR", "/dev/null", "SOFTHCA_DIR=/dev/null: is not a directory");
}

TEST_F(Environment, the_directory_must_be_possible) {
    refuses("SOFTHCA_DIR", "/nowhere/at/all", "SOFTHCA_DIR=/nowhere/at/all: cannot make it: No such file or directory");
}

TEST_F(Environment, the_directory_must_be_in_memory) {
    refuses("SOFTHCA_DIR", "/proc", "SOFTHCA_DIR=/proc: must be on tmpfs, processes meet in its memory");
}

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
    EXPECT_EQ(said(), "softhca: " + fabric() +
                          "/softhca: is not a private directory of this user; name another with SOFTHCA_DIR\n");
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
        EXPECT_EQ(said(), "softhca: cannot set up " + fabric() + "/fabric: Protocol error\n");
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

TEST_F(Environment, pace_wants_names_with_numbers) {
    refuses("SOFTHCA_PACE", "link", "SOFTHCA_PACE: 'link': wants a name and a number, as in link:25");
}

TEST_F(Environment, pace_knows_its_names) {
    refuses("SOFTHCA_PACE", "down:3", "SOFTHCA_PACE: 'down': knows link (GB/s), latency (us)");
}

TEST_F(Environment, pace_of_a_link_must_be_possible) {
    refuses("SOFTHCA_PACE", "link:0", "SOFTHCA_PACE: 'link:0': a link needs at least 1e-06 GB/s");
}

TEST_F(Environment, pace_of_latency_must_be_possible) {
    refuses("SOFTHCA_PACE", "latency:1e10", "SOFTHCA_PACE: 'latency:1e10': may cost 1000000000 us at most");
}

TEST_F(Environment, a_fault_wants_an_action) {
    refuses("SOFTHCA_FAULTS", "reg_mr", "SOFTHCA_FAULTS: 'reg_mr': wants FUNCTION[@DEVICE][#NTH[+]]=ACTION");
}

TEST_F(Environment, a_fault_counts_from_one) {
    refuses("SOFTHCA_FAULTS", "reg_mr#0=ENOMEM",
            "SOFTHCA_FAULTS: 'reg_mr#0=ENOMEM': the number after '#' counts calls from 1");
}

TEST_F(Environment, a_fault_names_a_device_that_can_be) {
    refuses("SOFTHCA_FAULTS", "reg_mr@4=ENOMEM",
            "SOFTHCA_FAULTS: 'reg_mr@4=ENOMEM': the number after '@' is a device from 0 to 3");
}

TEST_F(Environment, a_fault_names_a_function) {
    refuses("SOFTHCA_FAULTS", "walk=ENOMEM", "SOFTHCA_FAULTS: 'walk=ENOMEM': there is no such function to strike");
}

TEST_F(Environment, a_fault_has_a_known_action) {
    refuses("SOFTHCA_FAULTS", "reg_mr=explode",
            "SOFTHCA_FAULTS: 'reg_mr=explode': the action is an errno name, limit:COUNT, link_down, link_up, qp_error "
            "or device_fatal");
}

TEST_F(Environment, only_posting_can_break_a_queue_pair) {
    refuses("SOFTHCA_FAULTS", "reg_mr=qp_error",
            "SOFTHCA_FAULTS: 'reg_mr=qp_error': only post_send and post_recv have a queue pair to break");
}

TEST_F(Environment, only_registrations_have_a_limit) {
    refuses("SOFTHCA_FAULTS", "post_send=limit:3",
            "SOFTHCA_FAULTS: 'post_send=limit:3': limit:COUNT is for reg_mr and reg_dmabuf_mr");
}

} // namespace
