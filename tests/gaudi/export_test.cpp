// SPDX-License-Identifier: BSD-3-Clause
// dma-buf exports: one per block, a new descriptor for each who asks, and none where the driver refuses.
#include "gaudi.h"

#include <fcntl.h>
#include <sys/stat.h>

using namespace gaudi;
using namespace gaudi::test;

namespace {

class Export : public GaudiTest {
protected:
    static Region &region(std::uint64_t length = kMiB) {
        return *cards().find(value(card().arena().allocate({.length = length})));
    }
    static std::uint64_t exports() { return Counters(card())["exports"]; }
};

TEST_F(Export, each_caller_gets_a_descriptor_of_the_one_export) {
    Region &block = region();
    std::vector<thunk::Fd> descriptors;
    for (int i = 0; i < 10; ++i)
        descriptors.push_back(value(block.dmabuf()));
    EXPECT_EQ(exports(), 1u);
    for (std::size_t i = 0; i < descriptors.size(); ++i) {
        EXPECT_NE(fcntl(descriptors[i].get(), F_GETFD) & FD_CLOEXEC, 0);
        EXPECT_NE(descriptors[i].get(), block.export_descriptor()) << "the caller owns what it closes";
        for (std::size_t j = 0; j < i; ++j)
            EXPECT_NE(descriptors[i].get(), descriptors[j].get());
    }
    descriptors.clear();
    EXPECT_TRUE(value(block.dmabuf())) << "it outlives its copies";
    EXPECT_EQ(exports(), 1u);
}

TEST_F(Export, it_is_the_whole_block_from_its_start) {
    Region &block = region();
    const auto descriptor = value(block.dmabuf());
    const std::string link = "/proc/self/fd/" + std::to_string(descriptor.get());
    const std::string name = std::filesystem::read_symlink(link);
    EXPECT_NE(name.find("dmabuf-0-" + std::to_string(kPage) + "-"), std::string::npos) << name;
}

TEST_F(Export, allocations_of_a_block_share_its_export) {
    Region &first = region(), &second = region();
    ASSERT_EQ(&first, &second);
    const auto a = value(first.dmabuf()), b = value(second.dmabuf());
    struct stat one {
    }, other{};
    ASSERT_EQ(fstat(a.get(), &one), 0);
    ASSERT_EQ(fstat(b.get(), &other), 0);
    EXPECT_EQ(one.st_ino, other.st_ino);
    EXPECT_EQ(exports(), 1u);
}

TEST_F(Export, the_number_of_the_export_is_stable) {
    Region &block = region();
    const int number = block.export_descriptor();
    EXPECT_GE(number, 0);
    EXPECT_EQ(block.export_descriptor(), number);
    EXPECT_EQ(exports(), 1u);
}

TEST_F(Export, a_want_of_descriptors_is_not_for_ever) {
    set("SOFTGAUDI_FAULTS", "device_mapped_memory_export_dmabuf_fd#1=EMFILE");
    Region &block = region();
    EXPECT_TRUE(block.exportable());
    EXPECT_EQ(card().exports(), Card::Exports::unknown) << "nor an answer";
    EXPECT_TRUE(value(block.dmabuf()));
}

TEST_F(Export, a_new_life_begins_unexported) {
    region();
    const std::uint64_t address = value(card().arena().allocate({.length = 2 * kPage}));
    Region *block = cards().find(address);
    value(block->dmabuf());
    card().arena().free(address);
    ASSERT_EQ(cards().find(value(card().arena().allocate({.length = 2 * kPage}))), block);
    EXPECT_FALSE(block->was_exported());
    EXPECT_TRUE(block->exportable());
    EXPECT_GE(block->export_descriptor(), 0);
}

TEST_F(Export, where_the_driver_refuses_no_block_is_exportable) {
    set("SOFTGAUDI_FAULTS", "device_mapped_memory_export_dmabuf_fd=EINVAL");
    Region &block = region();
    EXPECT_FALSE(block.exportable());
    EXPECT_EQ(card().exports(), Card::Exports::no);
    EXPECT_EQ(block.export_descriptor(), -1);
    const auto descriptor = block.dmabuf();
    ASSERT_FALSE(descriptor);
    EXPECT_EQ(descriptor.error().code, EINVAL);
    const std::uint64_t asked = Counters(card()).calls("device_mapped_memory_export_dmabuf_fd");
    EXPECT_FALSE(region(kPage).exportable()) << "the next block is like the first";
    EXPECT_EQ(Counters(card()).calls("device_mapped_memory_export_dmabuf_fd"), asked) << "and is not asked for";
}

TEST_F(Export, it_can_be_forbidden) {
    Region &block = region();
    block.forbid_export();
    EXPECT_FALSE(block.exportable());
}

TEST_F(Export, one_card_that_refuses_does_not_forbid_the_others) {
    set("SOFTGAUDI_FAULTS", "device_mapped_memory_export_dmabuf_fd@3=EPERM"); // the server's card 3 is module 0
    EXPECT_FALSE(region().exportable());
    const std::uint64_t other = value(card(1).arena().allocate({.length = kMiB}));
    EXPECT_TRUE(cards().find(other)->exportable());
    EXPECT_TRUE(value(cards().find(other)->dmabuf()));
}

} // namespace
