// SPDX-License-Identifier: BSD-3-Clause
// Card memory as dma-bufs: what can be imported, and transfers through the descriptor.
#include "hca.h"

using namespace hca;
using soft::Card;
using soft::kDown;
using soft::kPage;
using soft::kUp;
using soft::Packets;

namespace {

constexpr uint64_t kMiB = 1 << 20;

/// An exported block of a card.
struct Exported {
    explicit Exported(Card &card, uint64_t offset = 0, uint64_t size = kPage) : address(card.memory()) {
        fd = hlthunk_device_mapped_memory_export_dmabuf_fd(card.fd, address, size, offset, O_RDWR | O_CLOEXEC);
        EXPECT_GE(fd, 0) << strerror(errno);
        address += offset;
    }
    ~Exported() { drop(); }
    void drop() {
        if (fd >= 0)
            close(fd);
        fd = -1;
    }
    uint64_t address;
    int fd;
};

class DmaBufs : public HcaTest {
protected:
    Card card;
    Node node;

    ibv_mr *reg(const Exported &block, uint64_t offset = 0, uint64_t size = kMiB, int access = kAll) {
        return ibv_reg_dmabuf_mr(node.pd, offset, size, block.address + offset, block.fd, access);
    }
    void refused(ibv_mr *mr, int error) {
        EXPECT_EQ(errno, error);
        EXPECT_EQ(mr, nullptr);
    }
    /// Reads the memory through the card.
    std::vector<unsigned char> read_card(uint64_t address, size_t size) {
        std::vector<unsigned char> out(size);
        card.run(kUp, Packets().copy(address, card.map(out), static_cast<uint32_t>(size)));
        return out;
    }
    void write_card(uint64_t address, std::vector<unsigned char> &bytes) {
        card.run(kDown, Packets().copy(card.map(bytes), address, static_cast<uint32_t>(bytes.size())));
    }
};

// ---- import

TEST_F(DmaBufs, ucx_probe_finds_support) { refused(ibv_reg_dmabuf_mr(node.pd, 0, 4096, 0, -1, kAll), EBADF); }

TEST_F(DmaBufs, closed_descriptor_is_refused) { refused(ibv_reg_dmabuf_mr(node.pd, 0, 4096, 0, 9999, kAll), EBADF); }

TEST_F(DmaBufs, descriptor_of_another_file_is_refused) {
    const int file = open("/dev/null", O_RDWR | O_CLOEXEC);
    const int memory = memfd_create("dmabuf-0-4096-x", MFD_CLOEXEC);
    refused(ibv_reg_dmabuf_mr(node.pd, 0, 4096, 0, file, kAll), EINVAL);
    refused(ibv_reg_dmabuf_mr(node.pd, 0, 4096, 0, memory, kAll), EINVAL);
    close(file);
    close(memory);
}

TEST_F(DmaBufs, different_offset_and_address_in_page_are_refused) {
    const Exported block(card);
    refused(ibv_reg_dmabuf_mr(node.pd, 16, 4096, block.address, block.fd, kAll), EINVAL);
    refused(ibv_reg_dmabuf_mr(node.pd, 0, 4096, block.address + 16, block.fd, kAll), EINVAL);
    node.adopt(ibv_reg_dmabuf_mr(node.pd, 4096 + 16, 4096, block.address + 16, block.fd, kAll));
}

TEST_F(DmaBufs, range_past_the_end_is_refused) {
    const Exported block(card);
    refused(reg(block, 0, kPage + 1), EINVAL);
    refused(reg(block, kPage, 1), EINVAL);
    refused(reg(block, kPage + 4096, 1), EINVAL);
    refused(reg(block, UINT64_MAX - 4095, 4096), EINVAL);
    refused(reg(block, 0, 0), EINVAL);
    node.adopt(reg(block, kPage - 4096, 4096));
}

TEST_F(DmaBufs, wrapping_address_is_refused) {
    const Exported block(card);
    refused(ibv_reg_dmabuf_mr(node.pd, 0, 8192, UINT64_MAX - 4095, block.fd, kAll), EINVAL);
}

TEST_F(DmaBufs, remote_write_without_local_write_is_refused) {
    const Exported block(card);
    refused(reg(block, 0, kMiB, IBV_ACCESS_REMOTE_WRITE), EINVAL);
    node.adopt(reg(block, 0, kMiB, IBV_ACCESS_REMOTE_READ));
}

TEST_F(DmaBufs, card_in_reset_is_refused) {
    const Exported block(card);
    uint64_t seq = 0;
    std::array chunks = {Card::chunk(kDown, 0x1234000, 64)}; // an unmapped command buffer
    (void)card.try_submit(chunks, seq);
    (void)card.wait(seq);
    refused(reg(block), EPERM);
}

TEST_F(DmaBufs, import_keeps_the_memory_in_use) {
    Exported block(card);
    ibv_mr *mr = reg(block);
    ASSERT_NE(mr, nullptr);
    block.drop();
    EXPECT_NE(hlthunk_memory_unmap(card.fd, block.address), 0);
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
    EXPECT_EQ(hlthunk_memory_unmap(card.fd, block.address), 0);
}

// ---- data

TEST_F(DmaBufs, host_writes_and_reads_card_memory) {
    const Exported block(card);
    ibv_mr *device = reg(block, 0, kPage);
    node.adopt(device);
    std::vector<unsigned char> data = pattern(3 * kMiB + 5), back(data.size());
    const Pair pair(node, node);
    Request write(IBV_WR_RDMA_WRITE);
    EXPECT_EQ(status_of(pair.here, write.all(node.reg(data)).remote(block.address + 777, device->rkey)),
              IBV_WC_SUCCESS);
    EXPECT_EQ(read_card(block.address + 777, data.size()), data);
    Request read(IBV_WR_RDMA_READ);
    EXPECT_EQ(status_of(pair.here, read.all(node.reg(back)).remote(block.address + 777, device->rkey)), IBV_WC_SUCCESS);
    EXPECT_EQ(back, data);
}

TEST_F(DmaBufs, card_to_card_keeps_every_byte) {
    Card second("0000:1a:00.0");
    const Exported from(card), to(second);
    ibv_mr *source = reg(from, 0, kPage), *target = reg(to, 0, kPage);
    node.adopt(source);
    node.adopt(target);
    std::vector<unsigned char> data = pattern(5 * kMiB + 3);
    write_card(from.address + 100, data);
    const Pair pair(node, node);
    Request write(IBV_WR_RDMA_WRITE);
    write.piece(reinterpret_cast<void *>(from.address + 100), data.size(), source->lkey)
        .remote(to.address + 4099, target->rkey);
    EXPECT_EQ(status_of(pair.here, write), IBV_WC_SUCCESS);
    std::vector<unsigned char> got(data.size());
    second.run(kUp, Packets().copy(to.address + 4099, second.map(got), static_cast<uint32_t>(got.size())));
    EXPECT_EQ(got, data);
}

TEST_F(DmaBufs, partial_export_starts_at_its_offset) {
    const Exported block(card, 2 * kMiB, kMiB);
    ibv_mr *device = ibv_reg_dmabuf_mr(node.pd, 4096, 8192, block.address + 4096, block.fd, kAll);
    ASSERT_NE(device, nullptr);
    node.adopt(device);
    std::vector<unsigned char> data = pattern(8192);
    const Pair pair(node, node);
    Request write(IBV_WR_RDMA_WRITE);
    EXPECT_EQ(status_of(pair.here, write.all(node.reg(data)).remote(block.address + 4096, device->rkey)),
              IBV_WC_SUCCESS);
    EXPECT_EQ(read_card(block.address + 4096, 8192), data);
}

TEST_F(DmaBufs, access_past_the_region_is_refused) {
    const Exported block(card);
    ibv_mr *device = reg(block, kMiB, kMiB);
    node.adopt(device);
    std::vector<unsigned char> data(4096);
    const ibv_mr *mr = node.reg(data);
    {
        const Pair pair(node, node);
        Request write(IBV_WR_RDMA_WRITE);
        EXPECT_EQ(status_of(pair.here, write.all(mr).remote(block.address + 2 * kMiB - 4095, device->rkey)),
                  IBV_WC_REM_ACCESS_ERR);
    }
    const Pair pair(node, node);
    Request write(IBV_WR_RDMA_WRITE);
    EXPECT_EQ(status_of(pair.here, write.all(mr).remote(block.address + kMiB - 1, device->rkey)),
              IBV_WC_REM_ACCESS_ERR);
}

TEST_F(DmaBufs, receive_in_card_memory_is_filled) {
    const Exported block(card);
    ibv_mr *device = reg(block);
    node.adopt(device);
    std::vector<unsigned char> data = pattern(10'000);
    const Pair pair(node, node);
    ASSERT_EQ(receive(pair.there, device, 1), 0);
    Request send(IBV_WR_SEND);
    EXPECT_EQ(status_of(pair.here, send.all(node.reg(data))), IBV_WC_SUCCESS);
    EXPECT_EQ(read_card(block.address, data.size()), data);
}

TEST_F(DmaBufs, atomics_on_card_memory_succeed) {
    const Exported block(card);
    ibv_mr *device = reg(block);
    node.adopt(device);
    uint64_t before = 1;
    const ibv_mr *mr = node.reg(&before, sizeof before);
    const Pair pair(node, node);
    for (int i = 0; i < 3; ++i) {
        Request add(IBV_WR_ATOMIC_FETCH_AND_ADD);
        EXPECT_EQ(status_of(pair.here, add.all(mr).operands(block.address + 64, device->rkey, 5)), IBV_WC_SUCCESS);
    }
    EXPECT_EQ(before, 10u);
    EXPECT_EQ(read_card(block.address + 64, 1).front(), 15);
}

} // namespace
