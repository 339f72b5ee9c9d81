// SPDX-License-Identifier: BSD-3-Clause
// Regions of host memory: what can be registered, with which rights.
#include "hca.h"

using namespace hca;

namespace {

class Region : public HcaTest {
protected:
    Node node;
    std::vector<char> data = std::vector<char>(65536);

    /// Takes an int, because the header's macro mixes enumerations.
    ibv_mr *try_reg(int access) { return ibv_reg_mr(node.pd, data.data(), 10, access); }
    void refused(ibv_mr *mr, int error) {
        EXPECT_EQ(errno, error);
        EXPECT_EQ(mr, nullptr);
    }
};

TEST_F(Region, registration_returns_address_and_keys) {
    const ibv_mr *mr = node.reg(data);
    EXPECT_EQ(mr->addr, data.data());
    EXPECT_EQ(mr->length, data.size());
    EXPECT_NE(mr->rkey, 0u);
    const ibv_mr *other = node.reg(data);
    EXPECT_NE(mr->rkey, other->rkey);
}

TEST_F(Region, key_is_not_reused_soon) {
    ibv_mr *mr = node.reg(data);
    const uint32_t key = mr->rkey;
    node.dereg(mr);
    EXPECT_NE(node.reg(data)->rkey, key);
}

TEST_F(Region, remote_write_without_local_write_is_refused) {
    refused(try_reg(IBV_ACCESS_REMOTE_WRITE), EINVAL);
    refused(try_reg(IBV_ACCESS_REMOTE_ATOMIC), EINVAL);
}

TEST_F(Region, unknown_rights_are_refused) {
    refused(ibv_reg_mr_iova2(node.pd, data.data(), 10, 0, IBV_ACCESS_MW_BIND), EINVAL);
}

TEST_F(Region, optional_rights_are_ignored) {
    volatile unsigned access = kAll | IBV_ACCESS_RELAXED_ORDERING;
    node.adopt(ibv_reg_mr_iova2(node.pd, data.data(), 10, 0, access));
}

TEST_F(Region, on_demand_paging_is_not_supported) { refused(try_reg(IBV_ACCESS_ON_DEMAND), EOPNOTSUPP); }

TEST_F(Region, unmapped_memory_is_refused) {
    refused(ibv_reg_mr(node.pd, reinterpret_cast<void *>(0x1001001800000000), 4096, kAll), EFAULT);
    void *page = mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(static_cast<char *>(page) + 4096, 4096);
    refused(ibv_reg_mr(node.pd, page, 8192, kAll), EFAULT);
    munmap(page, 4096);
}

TEST_F(Region, local_write_to_read_only_memory_is_refused) {
    void *page = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    refused(ibv_reg_mr(node.pd, page, 4096, kAll), EFAULT);
    node.dereg(node.reg(page, 4096, IBV_ACCESS_REMOTE_READ));
    munmap(page, 4096);
}

TEST_F(Region, wrapping_range_is_refused) {
    refused(ibv_reg_mr(node.pd, data.data(), SIZE_MAX, kAll), EINVAL);
    refused(ibv_reg_mr_iova(node.pd, data.data(), 4096, UINT64_MAX - 1, kAll), EINVAL);
}

TEST_F(Region, rereg_mr_is_not_supported) {
    EXPECT_NE(ibv_rereg_mr(node.reg(data), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, 0), 0);
}

TEST_F(Region, dealloc_of_used_domain_is_refused) {
    ibv_mr *mr = ibv_reg_mr(node.pd, data.data(), 10, kAll);
    EXPECT_EQ(ibv_dealloc_pd(node.pd), EBUSY);
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST_F(Region, registration_in_a_full_table_is_refused) {
    ibv_device_attr attr{};
    ASSERT_EQ(ibv_query_device(node.context, &attr), 0);
    std::vector<ibv_mr *> all;
    for (int i = 0; i < attr.max_mr; ++i) {
        all.push_back(ibv_reg_mr(node.pd, data.data(), 16, kAll));
        ASSERT_NE(all.back(), nullptr);
    }
    refused(ibv_reg_mr(node.pd, data.data(), 16, kAll), ENOMEM);
    for (ibv_mr *mr : all)
        ASSERT_EQ(ibv_dereg_mr(mr), 0);
}

TEST_F(Region, reg_mr_iova_uses_the_given_addresses) {
    // Addresses that differ from the program's.
    constexpr uint64_t kIova = 0x123456789000;
    ibv_mr *mr = ibv_reg_mr_iova(node.pd, data.data(), data.size(), kIova, kAll);
    ASSERT_NE(mr, nullptr);
    node.adopt(mr);
    auto source = pattern(100);
    ibv_mr *from = node.reg(source);
    const Pair pair(node, node);
    Request write(IBV_WR_RDMA_WRITE);
    write.all(from).remote(kIova + 1000, mr->rkey);
    EXPECT_EQ(status_of(pair.here, write), IBV_WC_SUCCESS);
    EXPECT_EQ(std::memcmp(data.data() + 1000, source.data(), source.size()), 0);
}

} // namespace
