// SPDX-License-Identifier: BSD-3-Clause
// Card memory that was registered, freed and allocated again.
#include "fabric.h"
#include "owner.h"

#include <memory>
#include <optional>

using namespace e2e;
using uct_side::read_counter;

namespace {

constexpr std::size_t kBlock = uct_side::kPage + 1; // more than a page gets a driver block of its own
constexpr std::size_t kChecked = 65536;

WriteRequest make_request(const MappedRange &mapped, const Buffer &buffer, const Bytes &bytes) {
    return {mapped.key(), buffer.address(), {bytes.begin(), bytes.end()}};
}

class Reuse : public FabricTest, public ::testing::WithParamInterface<std::string> {
protected:
    Reuse() { set("SOFTGAUDI_QUIRKS", GetParam()); }

    /// Runs `owner` as the first side, whose write requests the second side serves.
    static void run_owner(const std::function<void(Side &, Cards &)> &owner) {
        run_pair([&](Side &side, bool first) {
            if (!first)
                return serve_writes(side);
            Cards cards;
            owner(side, cards);
            end_writes(side);
        });
    }
};

TEST_P(Reuse, block_at_the_same_address_is_registered_again) {
    run_owner([](Side &side, Cards &cards) {
        const Buffer anchor(cards.domain(), 4096); // keeps the block for small allocations mapped
        void *address = nullptr;
        for (unsigned round = 0; round < 5; ++round) {
            Buffer::Placement placement;
            placement.address = address;
            if (address)
                placement.flags = UCT_MD_MEM_FLAG_FIXED;
            {
                const Buffer buffer(cards.domain(), kBlock, placement);
                require(!address || buffer.data() == address, "the block has another address");
                address = buffer.data();
                cards.write(buffer, Bytes(kChecked));
                const MappedRange mapped(side, buffer.data(), kChecked);
                const Bytes bytes = uct_side::pattern(kChecked, round);
                request_write(side, make_request(mapped, buffer, bytes));
                require(cards.read(buffer, kChecked) == bytes, "the write went elsewhere");
            }
            trigger_deregistration(side);
        }
    });
}

TEST_P(Reuse, freed_range_of_a_block_serves_the_next_allocation) {
    run_owner([](Side &side, Cards &cards) {
        const Buffer before(cards.domain(), 3 * 4096), after(cards.domain(), 3 * 4096);
        const Bytes guard = uct_side::pattern(3 * 4096, 77);
        cards.write(before, guard);
        cards.write(after, guard);
        for (unsigned round = 0; round < 20; ++round) {
            const std::size_t size = 1000 + round * 977;
            const Buffer buffer(cards.domain(), size);
            const MappedRange mapped(side, buffer.data(), size);
            const Bytes bytes = uct_side::pattern(size, round);
            request_write(side, make_request(mapped, buffer, bytes));
            require(cards.read(buffer, size) == bytes, "the write went elsewhere");
            require(cards.read(before, guard.size()) == guard && cards.read(after, guard.size()) == guard,
                    "an adjacent allocation was written to");
        }
    });
}

TEST_P(Reuse, imported_block_is_freed_after_deregistration) {
    run_owner([](Side &side, Cards &cards) {
        const Buffer anchor(cards.domain(), 4096);
        const std::uint64_t usual = read_counter("dram_used_bytes");
        std::optional<Buffer> first(std::in_place, cards.domain(), kBlock);
        const std::uint64_t one = read_counter("dram_used_bytes") - usual;
        auto mapped = std::make_unique<MappedRange>(side, first->data(), kChecked);
        const std::vector<char> key = mapped->key();
        const std::uint64_t address = first->address();
        first.reset();
        require(read_counter("dram_used_bytes") == usual + one, "memory that an HCA can write to was freed");

        // The old key still names the old memory, not the next allocation.
        const Buffer second(cards.domain(), kBlock);
        const Bytes bytes = uct_side::pattern(kChecked, 1);
        cards.write(second, bytes);
        require(read_counter("dram_used_bytes") == usual + 2 * one, "the second allocation reuses the imported block");
        request_write(side, {key, address, std::vector<char>(kChecked, 'x')});
        require(cards.read(second, kChecked) == bytes, "an old registration reaches new memory");

        mapped.reset();
        trigger_deregistration(side);
        // Allocations retry the deferred unmap, ever more rarely (gaudi/memory/retry_pace.h).
        for (int tries = 0; tries < 64 && read_counter("dram_used_bytes") != usual + one; ++tries)
            const Buffer next(cards.domain(), 4096);
        require(read_counter("dram_used_bytes") == usual + one, "the kept block was not freed");
    });
}

INSTANTIATE_TEST_SUITE_P(, Reuse, ::testing::Values("", "mainline", "posted"),
                         [](const auto &param) { return param.param.empty() ? std::string("usual") : param.param; });

} // namespace
