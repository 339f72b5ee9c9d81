// SPDX-License-Identifier: BSD-3-Clause
// Gaudi to Gaudi memory through UCX's ib module on the software HCA: every byte arrives, and the counters of cards and
// HCAs show how many were staged.
#include "conversation.h"
#include "read_counters.h"

#include <stdlib.h>

using namespace e2e;

namespace {

constexpr std::size_t kLargest = 16 << 20;

/// The sizes to transfer; UCX emulates reads of up to 64 bytes by messages.
std::vector<std::size_t> sizes(Operation operation) {
    const std::size_t smallest = operation == Operation::get ? 65 : 8;
    return {smallest, 1000, 65536, (1 << 20) + 3, 8 << 20, kLargest};
}

class Transfers : public ::testing::Test {
protected:
    Transfers() {
        set("UCX_TLS", "rc_v,gaudi_cpy");
        set("UCX_RNDV_THRESH", "0"); // by default UCX copies small messages, which is faster
        set("UCX_ZCOPY_THRESH", "0");
    }
    static void set(const char *variable, const char *value) { setenv(variable, value, 1); }

    /// What a transfer at each size moves.
    static std::vector<Moved> measure_transfers(Operation operation) {
        std::vector<Moved> all;
        run_pair([&](Side &side, bool first) {
            Memory memory(side, UCS_MEMORY_TYPE_GAUDI, kLargest);
            for (const std::size_t size : sizes(operation)) {
                std::vector<Moved> looks;
                exchange(side, first, operation, memory, size, true, [&] { looks.push_back(read_counters()); });
                if (first)
                    all.push_back(looks.at(1) - looks.at(0));
            }
        });
        return all;
    }

    static void expect_nothing_staged(Operation operation) {
        const std::vector<Moved> moved = measure_transfers(operation);
        const std::vector<std::size_t> size = sizes(operation);
        ASSERT_EQ(moved.size(), size.size());
        for (std::size_t i = 0; i < size.size(); ++i) {
            EXPECT_EQ(moved[i].staged(), 0u) << size[i];
            EXPECT_EQ(moved[i].direct, 2 * size[i]) << size[i]; // read from one card, written to the other
            EXPECT_LT(moved[i].through, 4096u) << size[i];      // only the protocol's own messages
        }
    }

    static void expect_all_staged(Operation operation) {
        const std::vector<Moved> moved = measure_transfers(operation);
        const std::vector<std::size_t> size = sizes(operation);
        ASSERT_EQ(moved.size(), size.size());
        for (std::size_t i = 0; i < size.size(); ++i) {
            EXPECT_GE(moved[i].staged(), 2 * size[i]) << size[i]; // up on one side, down on the other
            EXPECT_EQ(moved[i].direct, 0u) << size[i];
        }
    }
};

class ZeroCopy : public Transfers, public ::testing::WithParamInterface<Operation> {};

TEST_P(ZeroCopy, usual_driver_stages_nothing) { expect_nothing_staged(GetParam()); }

TEST_P(ZeroCopy, mainline_driver_stages_nothing) {
    set("SOFTGAUDI_QUIRKS", "mainline");
    expect_nothing_staged(GetParam());
}

TEST_P(ZeroCopy, posted_writes_stage_nothing) {
    set("SOFTGAUDI_QUIRKS", "posted");
    expect_nothing_staged(GetParam());
}

TEST_P(ZeroCopy, gpu_direct_rdma_off_stages_everything) {
    set("UCX_IB_GPU_DIRECT_RDMA", "n");
    expect_all_staged(GetParam());
}

TEST_P(ZeroCopy, kernel_without_dmabuf_stages_everything) {
    set("SOFTHCA_FAULTS", "reg_dmabuf_mr=ENOTSUPP");
    expect_all_staged(GetParam());
}

#ifdef __SANITIZE_THREAD__
// Under TSan UCX runs without its memory hooks, caches no registrations, and receives messages staged.
const auto kKinds = ::testing::Values(Operation::put, Operation::get);
#else
const auto kKinds = ::testing::Values(Operation::tag, Operation::am, Operation::put, Operation::get);
#endif
INSTANTIATE_TEST_SUITE_P(, ZeroCopy, kKinds, [](const auto &param) { return std::string(name(param.param)); });

/// A transient error of exports.
class ExportShortage : public Transfers, public ::testing::WithParamInterface<const char *> {
protected:
    static std::string rule(const char *calls) {
        return std::string("device_mapped_memory_export_dmabuf_fd") + calls + "=" + GetParam() + ";";
    }
};

TEST_P(ExportShortage, permanent_stages_everything) {
    set("SOFTGAUDI_FAULTS", rule("").c_str());
    expect_all_staged(Operation::put);
}

TEST_P(ExportShortage, transient_stages_nothing) {
    set("SOFTGAUDI_FAULTS", (rule("#1") + rule("#2")).c_str());
    expect_nothing_staged(Operation::put);
}

INSTANTIATE_TEST_SUITE_P(, ExportShortage, ::testing::Values("ENOMEM", "EAGAIN", "EBUSY", "EMFILE"),
                         [](const auto &error) { return std::string(error.param); });

} // namespace
