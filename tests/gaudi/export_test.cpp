// SPDX-License-Identifier: BSD-3-Clause
// dma-buf exports: one per block, a new descriptor for each who asks, and none where the driver refuses.
#include "gaudi.h"

#include <fcntl.h>
#include <sys/resource.h>
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

/// Export calls of the driver that fail: the first `count` of them, or all.
void fail_exports(const char *error, unsigned count = 0) {
    const std::string call = "device_mapped_memory_export_dmabuf_fd";
    std::string faults = count == 0 ? call + "=" + error : "";
    for (unsigned nth = 1; nth <= count; ++nth)
        faults += call + "#" + std::to_string(nth) + "=" + error + ";";
    set("SOFTGAUDI_FAULTS", faults);
}

class ExportShortage : public Export, public ::testing::WithParamInterface<const char *> {};

TEST_P(ExportShortage, that_passes_at_once_leaves_the_block_exportable) {
    fail_exports(GetParam(), 2);
    Region &block = region();
    EXPECT_TRUE(block.exportable());
    EXPECT_EQ(card().exports(), Card::Exports::yes);
    EXPECT_TRUE(value(block.dmabuf()));
}

TEST_P(ExportShortage, that_lasts_makes_the_block_not_exportable_after_bounded_tries) {
    fail_exports(GetParam());
    Region &block = region();
    EXPECT_FALSE(block.exportable());
    EXPECT_NE(block.why_no_export().find(GetParam()), std::string::npos) << block.why_no_export();
    EXPECT_EQ(card().exports(), Card::Exports::unknown) << "the card may export its next block";
    for (int i = 0; i < 50; ++i)
        EXPECT_FALSE(region().exportable());
    EXPECT_EQ(Counters(card()).calls("device_mapped_memory_export_dmabuf_fd"), 8u);
}

TEST_P(ExportShortage, that_ends_later_makes_the_block_exportable_with_the_next_allocation) {
    fail_exports(GetParam(), 6);
    Region &block = region();
    EXPECT_FALSE(block.exportable());
    for (int i = 0; i < 3; ++i)
        region();
    EXPECT_TRUE(block.exportable());
    EXPECT_TRUE(value(block.dmabuf()));
}

TEST_P(ExportShortage, of_a_later_block_is_noticed_when_it_is_mapped) {
    set("SOFTGAUDI_FAULTS", std::string("device_mapped_memory_export_dmabuf_fd#2+=") + GetParam());
    region();
    ASSERT_EQ(card().exports(), Card::Exports::yes);
    EXPECT_FALSE(region(2 * kPage).exportable());
}

INSTANTIATE_TEST_SUITE_P(With, ExportShortage, ::testing::Values("ENOMEM", "EAGAIN", "EBUSY", "EMFILE"),
                         [](const auto &error) { return std::string(error.param); });

TEST_F(Export, listeners_hear_when_a_shortage_has_ended) {
    struct Listener : MappingListener {
        void mapped(const Region &block) override { registrable.push_back(block.exportable()); }
        void unmapping(const Region &) override {}
        std::vector<bool> registrable;
    } listener;
    fail_exports("EMFILE", 4);
    cards().add_listener(listener);
    region();
    region();
    EXPECT_EQ(listener.registrable, (std::vector<bool>{false, true}));
    cards().remove_listener(listener);
}

TEST_F(Export, no_descriptor_for_an_importer_stages_the_block_until_an_allocation_finds_one) {
    Region &block = region();
    const thunk::Fd last = value(block.dmabuf());
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    const auto allow = [&](rlim_t descriptors) {
        const rlimit now{descriptors, before.rlim_max};
        ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &now), 0);
    };
    allow(3); // 0, 1 and 2 are taken
    EXPECT_EQ(block.dmabuf().error().code, EMFILE);
    EXPECT_FALSE(block.exportable());
    region();
    EXPECT_FALSE(block.exportable()) << "there is still none";
    allow(before.rlim_cur);
    region();
    EXPECT_TRUE(block.exportable());
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
    block.forbid_export("by the user");
    EXPECT_FALSE(block.exportable());
    EXPECT_EQ(block.why_no_export(), "by the user");
}

TEST_F(Export, one_card_that_refuses_does_not_forbid_the_others) {
    set("SOFTGAUDI_FAULTS", "device_mapped_memory_export_dmabuf_fd@3=EPERM"); // the server's card 3 is module 0
    EXPECT_FALSE(region().exportable());
    const std::uint64_t other = value(card(1).arena().allocate({.length = kMiB}));
    EXPECT_TRUE(cards().find(other)->exportable());
    EXPECT_TRUE(value(cards().find(other)->dmabuf()));
}

} // namespace
