// SPDX-License-Identifier: BSD-3-Clause
// Lists (ucp_dt_make_sgl) through UCP on the endpoint to the own worker: UCP must hand them to gaudi_cpy as lists.
#include "conversation.h"
#include "uct/uct_side.h"

#include <cstring>

using namespace e2e;
using uct_side::read_counter;

namespace {

constexpr std::size_t kBlock = 512;
constexpr std::size_t kBlocks = 10'000;

/// Copies blocks of both memories that are `distance` blocks apart, in one call.
void put_blocks(Side &side, const Memory &from, const Memory &to, ucp_rkey_h key, std::size_t distance) {
    std::vector<void *> buffers;
    std::vector<std::uint64_t> addresses;
    for (std::size_t i = 0; i < kBlocks; ++i) {
        buffers.push_back(from.data() + distance * i * kBlock);
        addresses.push_back(reinterpret_cast<std::uint64_t>(to.data()) + distance * i * kBlock);
    }
    const std::vector<std::size_t> lengths(kBlocks, kBlock);
    const std::vector<ucp_mem_h> handles(kBlocks, from.handle());
    const std::vector<ucp_rkey_h> keys(kBlocks, key);
    ucp_dt_local_sgl_t local{};
    local.field_mask = UCP_DT_LOCAL_SGL_FIELD_BUFFERS | UCP_DT_LOCAL_SGL_FIELD_LENGTHS | UCP_DT_LOCAL_SGL_FIELD_MEMHS;
    local.buffers = buffers.data();
    local.lengths = lengths.data();
    local.memhs = handles.data();
    ucp_dt_remote_sgl_t remote{};
    remote.field_mask =
        UCP_DT_REMOTE_SGL_FIELD_REMOTE_ADDRS | UCP_DT_REMOTE_SGL_FIELD_LENGTHS | UCP_DT_REMOTE_SGL_FIELD_RKEYS;
    remote.remote_addrs = addresses.data();
    remote.lengths = lengths.data();
    remote.rkeys = keys.data();
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REMOTE_DATATYPE | UCP_OP_ATTR_FIELD_REMOTE |
                         UCP_OP_ATTR_FIELD_REMOTE_COUNT;
    param.datatype = ucp_dt_make_sgl();
    param.remote_datatype = ucp_dt_make_sgl();
    param.remote = &remote;
    param.remote_count = kBlocks;
    side.finish(ucp_put_nbx(side.self(), &local, kBlocks, UCP_REMOTE_ADDR_INVALID, UCP_RKEY_INVALID, &param), "put");
    side.flush(side.self());
}

class Sgl : public ::testing::TestWithParam<std::tuple<ucs_memory_type_t, ucs_memory_type_t>> {};

INSTANTIATE_TEST_SUITE_P(from, Sgl,
                         ::testing::Values(std::tuple{UCS_MEMORY_TYPE_HOST, UCS_MEMORY_TYPE_GAUDI},
                                           std::tuple{UCS_MEMORY_TYPE_GAUDI, UCS_MEMORY_TYPE_HOST},
                                           std::tuple{UCS_MEMORY_TYPE_GAUDI, UCS_MEMORY_TYPE_GAUDI}),
                         [](const auto &tested) {
                             const auto name = [](ucs_memory_type_t type) -> std::string {
                                 return type == UCS_MEMORY_TYPE_HOST ? "host" : "gaudi";
                             };
                             return name(std::get<0>(tested.param)) + "_to_" + name(std::get<1>(tested.param));
                         });

TEST_P(Sgl, list_is_one_call_of_the_transport) {
    const auto [from_type, to_type] = GetParam();
    Side side(kAllFeatures);
    Memory from(side, from_type, 2 * kBlocks * kBlock), to(side, to_type, 2 * kBlocks * kBlock);
    const RemoteKey key = unpack_key(side.self(), to.key());
    const std::vector<char> bytes = pattern(from.size(), 1);
    from.write(bytes);
    to.write(std::vector<char>(to.size(), 'x'));

    put_blocks(side, from, to, key.get(), 2);
    const std::vector<char> after = to.read(to.size());
    for (std::size_t i = 0; i < 2 * kBlocks; ++i) {
        const std::vector<char> expected(kBlock, 'x');
        const char *block = i % 2 == 0 ? bytes.data() + i * kBlock : expected.data();
        ASSERT_EQ(std::memcmp(after.data() + i * kBlock, block, kBlock), 0) << "block " << i;
    }

    // Neighbours are one copy if the transport sees them together; one by one they fill batches of 64.
    const std::uint64_t submissions = read_counter("submissions");
    put_blocks(side, from, to, key.get(), 1);
    EXPECT_LE(read_counter("submissions") - submissions, kBlocks * kBlock / (512 << 10) + 4);
    EXPECT_EQ(std::memcmp(to.read(kBlocks * kBlock).data(), bytes.data(), kBlocks * kBlock), 0);
}

} // namespace
