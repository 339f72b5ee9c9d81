// SPDX-License-Identifier: BSD-3-Clause
// Large messages over shared memory: what they cost each process, by the counters of the product. Counts do not depend on
// the machine.
#include "conversation.h"

#include "cli/counter_snapshot.h"

#include <stdlib.h>
#include <unistd.h>

#include <filesystem>

using namespace e2e;

namespace {

constexpr std::size_t kSize = 64 << 20;
constexpr std::size_t kFragment = 512 << 10; // of UCX's pipelines, in host memory

class SharedMemory : public ::testing::Test {
protected:
    SharedMemory() {
        char name[] = "/dev/shm/counted-XXXXXX";
        m_directory = mkdtemp(name);
        setenv("GAUDI_COUNTERS_DIR", m_directory.c_str(), 1);
        setenv("UCX_TLS", "sm,gaudi_cpy", 1);
    }
    ~SharedMemory() override {
        std::error_code ignored;
        std::filesystem::remove_all(m_directory, ignored);
    }

    /// Counters of this process, over all cards.
    static gaudi::CardSnapshot count() {
        const auto counters = gaudi::cli::take_counters_of(getpid());
        if (!counters)
            throw Failure(counters.error());
        return counters->total();
    }

    /// Sends messages until nothing is new to either process, and counts what one more costs those with a card.
    static void send_in_steady_state(ucs_memory_type_t from, ucs_memory_type_t to) {
        run_pair([&](Side &side, bool first) {
            Memory memory(side, first ? from : to, kSize);
            for (unsigned i = 0; i < 3; ++i)
                exchange(side, first, Operation::tag, memory, kSize, true);
            const bool on_card = memory.type() == UCS_MEMORY_TYPE_GAUDI;
            const gaudi::CardSnapshot before = on_card ? count() : gaudi::CardSnapshot{};
            ucp_request_param_t param{};
            side.meet();
            side.finish(first ? ucp_tag_send_nbx(side.peer(), memory.data(), kSize, 1, &param)
                              : ucp_tag_recv_nbx(side.worker(), memory.data(), kSize, 1, ~0ull, &param),
                        "message");
            side.meet();
            if (!on_card)
                return;
            const gaudi::CardSnapshot after = count();
            require(after.staged_bytes() == before.staged_bytes(), "bytes were staged");
            require(after.mapping_misses() == before.mapping_misses(), "memory was mapped anew");
            require(after.direct_bytes() - before.direct_bytes() == kSize, "bytes were moved more than once");
            require(after.submissions - before.submissions <= kSize / kFragment, "a fragment took several submissions");
        });
    }

private:
    std::string m_directory;
};

TEST_F(SharedMemory, message_from_host_to_gaudi_maps_and_stages_nothing) {
    send_in_steady_state(UCS_MEMORY_TYPE_HOST, UCS_MEMORY_TYPE_GAUDI);
}

TEST_F(SharedMemory, message_from_gaudi_to_host_maps_and_stages_nothing) {
    send_in_steady_state(UCS_MEMORY_TYPE_GAUDI, UCS_MEMORY_TYPE_HOST);
}

TEST_F(SharedMemory, message_from_gaudi_to_gaudi_maps_and_stages_nothing) {
    send_in_steady_state(UCS_MEMORY_TYPE_GAUDI, UCS_MEMORY_TYPE_GAUDI);
}

} // namespace
