// SPDX-License-Identifier: BSD-3-Clause
// Gaudi memory through UCX's ib module with default thresholds: connected and datagram queue pairs, one and two rails,
// Gaudi and host memory at the other end. Every byte is checked, and counters show whether it was staged.
#include "conversation.h"
#include "fabric.h"
#include "read_counters.h"

#include <algorithm>
#include <tuple>

using namespace e2e;

namespace {

constexpr auto kHost = UCS_MEMORY_TYPE_HOST;
constexpr auto kGaudi = UCS_MEMORY_TYPE_GAUDI;
constexpr std::array kMessages = {Operation::put, Operation::get, Operation::tag, Operation::am};
constexpr std::array<std::size_t, 7> kLengths = {0, 1, 8, 4095, 65536, (1 << 20) + 3, 16 << 20};
constexpr std::size_t kRendezvous = 65536; // UCX chooses rendezvous from this size on in every case below

struct Way {
    const char *transport;
    Operation operation;
    ucs_memory_type_t first, second;

    bool datagrams() const { return std::string(transport) == "ud_v"; }
    /// Whether UCX chooses zero copy at this size; otherwise it stages.
    bool zero_copy(std::size_t size) const {
        if (datagrams())
            return false; // datagrams have no RDMA: the receiver gets the bytes in host memory
        switch (operation) {
        case Operation::put:
            return true;
        case Operation::get:
            return size > 64 || first == kHost; // UCX emulates shorter reads into device memory by messages
        default:
            return first == kGaudi || size >= kRendezvous; // short messages of host memory are sent eagerly
        }
    }
};

class Ib : public FabricTest {
protected:
    static void use(const char *transport, int rails) {
        set("UCX_TLS", std::string(transport) + ",gaudi_cpy");
        for (const char *variable : {"UCX_MAX_RNDV_RAILS", "UCX_MAX_RMA_RAILS"})
            set(variable, std::to_string(rails));
    }

    /// What one transfer moved; only the first side reads the counters.
    static Moved measure_transfer(Side &side, bool first, const Way &way, Memory &memory, std::size_t size) {
        std::vector<Moved> looks;
        exchange(side, first, way.operation, memory, size, true, [&] { looks.push_back(read_counters()); });
        return first ? looks.at(1) - looks.at(0) : Moved{};
    }
};

void expect_direct(const Way &way, std::size_t size, const Moved &moved) {
    const std::uint64_t ends = (way.first == kGaudi ? 1u : 0u) + (way.second == kGaudi ? 1u : 0u);
    EXPECT_EQ(moved.staged(), 0u) << size;
    EXPECT_EQ(moved.direct, ends * size) << size;
    EXPECT_EQ(moved.registrations, 0u) << size << ": the memory is registered already";
}

void expect_staged(const Way &way, std::size_t size, const Moved &moved) {
    if (way.operation == Operation::am && size < kRendezvous)
        return; // the active-message callback gets the bytes in host memory
    // The HCA may read datagrams from card memory, but they arrive in host memory.
    const bool received = way.operation == Operation::get ? way.first == kGaudi : way.second == kGaudi;
    EXPECT_GE(moved.staged(), received ? size : 0) << size;
}

using Case = std::tuple<const char *, int, Operation, std::pair<ucs_memory_type_t, ucs_memory_type_t>>;

class IbTransfer : public Ib, public ::testing::WithParamInterface<Case> {};

TEST_P(IbTransfer, arrives_staged_only_where_ucx_chooses_so) {
    const auto [transport, rails, operation, types] = GetParam();
    const Way way{transport, operation, types.first, types.second};
    use(transport, rails);
    run_pair([&](Side &side, bool first) {
        Memory memory(side, first ? way.first : way.second, kLengths.back());
        for (const std::size_t size : kLengths) {
            const Moved moved = measure_transfer(side, first, way, memory, size);
            if (!first)
                continue;
            if (way.zero_copy(size))
                expect_direct(way, size, moved);
            else
                expect_staged(way, size, moved);
        }
    });
}

std::string case_name(const ::testing::TestParamInfo<Case> &info) {
    const auto &[transport, rails, operation, types] = info.param;
    const auto type_name = [](ucs_memory_type_t type) { return type == kHost ? "host" : "gaudi"; };
    return std::string(name(operation)) + "_" + type_name(types.first) + "_" + type_name(types.second) + "_" +
           transport + (rails == 1 ? "_one_rail" : "_two_rails");
}

INSTANTIATE_TEST_SUITE_P(, IbTransfer,
                         ::testing::Combine(::testing::Values("rc_v", "ud_v"), ::testing::Values(1, 2),
                                            ::testing::ValuesIn(kMessages),
                                            ::testing::Values(std::pair{kGaudi, kGaudi}, std::pair{kGaudi, kHost},
                                                              std::pair{kHost, kGaudi})),
                         case_name);

class IbOperation : public Ib, public ::testing::WithParamInterface<Operation> {
protected:
    Way way() const { return {"rc_v", GetParam(), kGaudi, kGaudi}; }

    /// The number of HCAs that carried a large transfer.
    std::size_t count_devices_of_a_large_transfer() {
        std::size_t used = 0;
        run_pair([&](Side &side, bool first) {
            constexpr std::size_t kSize = 16 << 20;
            Memory memory(side, kGaudi, kSize);
            const Moved moved = measure_transfer(side, first, way(), memory, kSize);
            used = static_cast<std::size_t>(
                std::ranges::count_if(moved.direct_by_device, [](std::uint64_t bytes) { return bytes > kSize / 4; }));
        });
        return used;
    }
};

TEST_P(IbOperation, quarter_of_a_gibibyte_stages_nothing) {
    run_pair([&](Side &side, bool first) {
        constexpr std::size_t kSize = 256 << 20;
        Memory memory(side, kGaudi, kSize);
        const Moved moved = measure_transfer(side, first, way(), memory, kSize);
        if (first)
            expect_direct(way(), kSize, moved);
    });
}

TEST_P(IbOperation, one_rail_uses_one_hca) {
    use("rc_v", 1);
    EXPECT_EQ(count_devices_of_a_large_transfer(), 1u);
}

TEST_P(IbOperation, two_rails_use_two_hcas) {
    use("rc_v", 2);
    EXPECT_EQ(count_devices_of_a_large_transfer(), 2u);
}

TEST_P(IbOperation, many_transfers_register_once) {
    run_pair([&](Side &side, bool first) {
        constexpr std::size_t kSize = 100'003;
        Memory memory(side, kGaudi, 2 * kSize);
        exchange(side, first, GetParam(), memory, kSize, false);
        side.meet();
        const Moved before = first ? read_counters() : Moved{};
        side.meet();
        for (std::size_t i = 0; i < 100; ++i)
            exchange(side, first, GetParam(), memory, kSize + i,
                     false); // without a handle UCX looks up its registration
        side.meet();
        if (first) {
            const Moved moved = read_counters() - before;
            EXPECT_EQ(moved.registrations, 0u);
            EXPECT_EQ(moved.exports, 0u);
            EXPECT_GE(moved.direct, 200 * kSize);
        }
        side.meet();
    });
}

INSTANTIATE_TEST_SUITE_P(, IbOperation, ::testing::ValuesIn(kMessages),
                         [](const auto &one) { return std::string(name(one.param)); });

} // namespace
