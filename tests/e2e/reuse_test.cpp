// SPDX-License-Identifier: BSD-3-Clause
// Card memory that was registered, freed and used again.
#include "counted.h"
#include "fabric.h"
#include "owner.h"

#include <memory>
#include <optional>

using namespace e2e;
using uct_side::read_counter;

namespace {

constexpr std::size_t kBlock = uct_side::kPage + 1; // more than a page: a driver block of its own
constexpr std::size_t kLook = 65536;

Order order(const Mapped &mapped, const Buffer &buffer, const Bytes &bytes) {
    return {mapped.key(), buffer.address(), {bytes.begin(), bytes.end()}};
}

void expect(bool held, const char *what) {
    if (!held)
        throw Failure(what);
}

/// UCX deregisters what was freed when it next registers something, not from within the free.
void make_ucx_let_go(Side &side, const Cards &cards) {
    const Buffer other(cards.domain(), 3 * 4096);
    const Mapped mapped(side, other.data(), other.size());
}

class Reuse : public FabricTest, public ::testing::WithParamInterface<std::string> {
protected:
    Reuse() { set("SOFTGAUDI_QUIRKS", GetParam()); }

    /// `owner` is the first side; the other writes what it is told to.
    static void own(const std::function<void(Side &, Cards &)> &owner) {
        run_pair([&](Side &side, bool first) {
            if (!first)
                return obey(side);
            Cards cards;
            owner(side, cards);
            dismiss(side);
        });
    }
};

TEST_P(Reuse, block_at_the_same_address_is_registered_again) {
    own([](Side &side, Cards &cards) {
        const Buffer anchor(cards.domain(), 4096); // keeps the card's ordinary block
        void *address = nullptr;
        for (unsigned life = 0; life < 5; ++life) {
            Buffer::Placement placement;
            placement.address = address;
            if (address)
                placement.flags = UCT_MD_MEM_FLAG_FIXED;
            {
                const Buffer buffer(cards.domain(), kBlock, placement);
                expect(!address || buffer.data() == address, "the second life is elsewhere");
                address = buffer.data();
                cards.write(buffer, Bytes(kLook));
                const Mapped mapped(side, buffer.data(), kLook);
                const Bytes bytes = uct_side::pattern(kLook, life);
                have_written(side, order(mapped, buffer, bytes));
                expect(cards.read(buffer, kLook) == bytes, "the write went elsewhere");
            }
            make_ucx_let_go(side, cards);
        }
    });
}

TEST_P(Reuse, freed_range_of_a_block_serves_the_next_allocation) {
    own([](Side &side, Cards &cards) {
        const Buffer before(cards.domain(), 3 * 4096), after(cards.domain(), 3 * 4096);
        const Bytes guard = uct_side::pattern(3 * 4096, 77);
        cards.write(before, guard);
        cards.write(after, guard);
        for (unsigned life = 0; life < 20; ++life) {
            const std::size_t size = 1000 + life * 977;
            const Buffer buffer(cards.domain(), size);
            const Mapped mapped(side, buffer.data(), size);
            const Bytes bytes = uct_side::pattern(size, life);
            have_written(side, order(mapped, buffer, bytes));
            expect(cards.read(buffer, size) == bytes, "the write went elsewhere");
            expect(cards.read(before, guard.size()) == guard && cards.read(after, guard.size()) == guard,
                   "a neighbour was written to");
        }
    });
}

TEST_P(Reuse, imported_block_is_freed_after_deregistration) {
    own([](Side &side, Cards &cards) {
        const Buffer anchor(cards.domain(), 4096);
        const std::uint64_t usual = read_counter("dram_used_bytes");
        std::optional<Buffer> first(std::in_place, cards.domain(), kBlock);
        const std::uint64_t one = read_counter("dram_used_bytes") - usual;
        auto mapped = std::make_unique<Mapped>(side, first->data(), kLook);
        const std::vector<char> key = mapped->key();
        const std::uint64_t address = first->address();
        first.reset();
        expect(read_counter("dram_used_bytes") == usual + one, "the driver gave back memory that an HCA can write to");

        // The old key still means the old memory, not that of whoever comes next.
        const Buffer second(cards.domain(), kBlock);
        const Bytes bytes = uct_side::pattern(kLook, 1);
        cards.write(second, bytes);
        expect(read_counter("dram_used_bytes") == usual + 2 * one, "the second block is not another one");
        have_written(side, {key, address, std::vector<char>(kLook, 'x')});
        expect(cards.read(second, kLook) == bytes, "an old registration serves new memory");

        mapped.reset();
        make_ucx_let_go(side, cards);
        { const Buffer next(cards.domain(), 4096); } // which is when the driver is asked again
        expect(read_counter("dram_used_bytes") == usual + one, "the kept block was not given back");
    });
}

INSTANTIATE_TEST_SUITE_P(, Reuse, ::testing::Values("", "mainline", "posted"),
                         [](const auto &param) { return param.param.empty() ? std::string("usual") : param.param; });

} // namespace
