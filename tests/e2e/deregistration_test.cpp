// SPDX-License-Identifier: BSD-3-Clause
// Memory whose calls no hook sees, registered with an HCA and then freed. The driver refuses to unmap memory that an HCA
// has registered, and UCX caches registrations.
#include "fabric.h"
#include "foreign_program.h"
#include "owner.h"

#include <optional>

using namespace e2e;

namespace {

constexpr std::size_t kSize = (3 << 20) + 5;
constexpr std::size_t kOffset = 12345;

#ifdef __SANITIZE_THREAD__ // under TSan UCX runs without its memory hooks, and so without the cache
constexpr bool kHasCache = false;
#else
constexpr bool kHasCache = true;
#endif

/// A program and its UCX in one process.
class Deregistration : public FabricTest {
protected:
    static Program::Memory allocate(const Program &program) { return program.allocate(kSize + kOffset); }
    /// Sends to the own worker without memory handles, so that UCX registers the memory.
    static void send(Side &side, const Program::Memory &from, const Program::Memory &to) {
        ucp_request_param_t param{};
        ucs_status_ptr_t received =
            ucp_tag_recv_nbx(side.worker(), to.data(kOffset), kSize, 1, ~std::uint64_t{0}, &param);
        side.finish(ucp_tag_send_nbx(side.self(), from.data(kOffset), kSize, 1, &param), "tag send");
        side.finish(received, "tag receive");
    }
};

TEST_F(Deregistration, unhooked_memory_can_be_freed_after_the_next_registration) {
    Program program(Program::Calls::looked_up);
    Side side(kAllFeatures);
    for (unsigned round = 0; round < 3; ++round) {
        const Program::Memory memory = allocate(program);
        {
            const MappedRange mapped(side, memory.data(kOffset), kSize);
            EXPECT_FALSE(program.free(memory)) << "it is registered";
        }
        trigger_deregistration(side);
        EXPECT_TRUE(program.free(memory));
    }
}

TEST_F(Deregistration, unhooked_memory_can_be_freed_at_once_without_cache) {
    set("UCX_RCACHE_ENABLE", "n");
    Program program(Program::Calls::looked_up);
    Side side(kAllFeatures);
    const Program::Memory memory = allocate(program);
    {
        const MappedRange mapped(side, memory.data(kOffset), kSize);
        EXPECT_FALSE(program.free(memory)) << "it is registered";
    }
    EXPECT_TRUE(program.free(memory));
}

TEST_F(Deregistration, unhooked_memory_stays_registered_after_a_send) {
    Program program(Program::Calls::looked_up);
    Side side(kAllFeatures);
    const Program::Memory from = allocate(program), to = allocate(program);
    send(side, from, to);
    trigger_deregistration(side);
    EXPECT_EQ(program.free(from), !kHasCache);
}

TEST_F(Deregistration, unhooked_memory_can_be_freed_after_a_send_without_cache) {
    set("UCX_RCACHE_ENABLE", "n");
    Program program(Program::Calls::looked_up);
    Side side(kAllFeatures);
    const Program::Memory from = allocate(program), to = allocate(program);
    const std::vector<char> bytes = pattern(kSize, 1);
    program.write(from, bytes, kOffset);
    send(side, from, to);
    EXPECT_EQ(program.read(to, kSize, kOffset), bytes);
    EXPECT_TRUE(program.free(from));
    EXPECT_TRUE(program.free(to));
}

TEST_F(Deregistration, second_handle_to_the_memory_stays_valid) {
    run_pair([&](Side &side, bool first) {
        if (!first)
            return serve_writes(side);
        Program program(Program::Calls::looked_up);
        const Program::Memory memory = allocate(program);
        std::optional<MappedRange> whole(std::in_place, side, memory.data(), kSize + kOffset);
        const MappedRange part(side, memory.data(kOffset), kSize);
        whole.reset();
        trigger_deregistration(side);
        if (program.free(memory))
            throw Failure("registered memory was unmapped");
        const std::vector<char> bytes = pattern(kSize, 2);
        request_write(side, {part.key(), memory.address + kOffset, bytes});
        if (program.read(memory, kSize, kOffset) != bytes)
            throw Failure("wrong bytes");
        end_writes(side);
    });
}

} // namespace
