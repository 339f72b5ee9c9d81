// SPDX-License-Identifier: BSD-3-Clause
// An HCA that passes UCX's probe for dma-bufs and then refuses to register any. No module can prevent that UCX fails; with
// UCX_LOG_LEVEL=diag the log names the variable that avoids it.
#include "conversation.h"
#include "fabric.h"
#include "printed.h"
#include "read_counters.h"

#include <gmock/gmock.h>

#include <list>

using namespace e2e;

namespace {

class HcaRefusal : public FabricTest {
protected:
    HcaRefusal() { set("SOFTHCA_FAULTS", "reg_dmabuf_mr@0#2+=EPERM;reg_dmabuf_mr@1#2+=EPERM"); }
};

TEST_F(HcaRefusal, refused_dmabuf_fails_ucp_mem_map_with_advice) {
    const Printed printed;
    run_pair(
        [](Side &side, bool) {
            try {
                const Memory memory(side, UCS_MEMORY_TYPE_GAUDI, 1 << 20);
            } catch (const Failure &failure) {
                if (std::string(failure.what()).find("ucp_mem_map") == std::string::npos)
                    throw;
                return;
            }
            throw Failure("card memory was mapped although the HCA refused it");
        },
        {.complaints = true});
    const std::string advice = "UCX_GAUDI_COPY_DMABUF=n stages it", text = printed.text();
    unsigned printed_count = 0;
    for (std::size_t at = text.find(advice); at != std::string::npos; at = text.find(advice, at + 1))
        ++printed_count;
    EXPECT_EQ(printed_count, 2u) << "once by each process";
}

TEST_F(HcaRefusal, refused_host_memory_prints_no_advice) {
    set("SOFTHCA_FAULTS", "reg_mr@0#8+=EPERM;reg_mr@1#8+=EPERM");
    const Printed printed;
    run_pair(
        [](Side &side, bool) {
            try {
                std::list<Memory> memory;
                for (unsigned i = 0; i < 16; ++i)
                    memory.emplace_back(side, UCS_MEMORY_TYPE_HOST, 1 << 20);
            } catch (const Failure &) {
                return;
            }
            throw Failure("host memory was mapped although the HCA refused it");
        },
        {.complaints = true});
    EXPECT_THAT(printed.text(), ::testing::Not(::testing::HasSubstr("UCX_GAUDI_COPY_DMABUF")));
}

TEST_F(HcaRefusal, staged_memory_is_exchanged) {
    set("UCX_GAUDI_COPY_DMABUF", "n");
    converse();
    EXPECT_EQ(read_counters().direct, 0u);
}

} // namespace
