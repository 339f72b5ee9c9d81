// SPDX-License-Identifier: BSD-3-Clause
// dma-buf exports: one per block, a new descriptor for each caller, and none where the driver refuses.
#include "framework_program.h"

#include "gaudi/memory/foreign_mappings.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

using namespace gaudi;
using namespace gaudi::test;

namespace {

class Export : public GaudiTest {
protected:
    static Region &allocate_in_block(std::uint64_t length = kMiB) {
        return *find_region(value(allocate(card(), {.length = length})));
    }
    static std::uint64_t count_exports() { return Counters(card())["exports"]; }
};

TEST_F(Export, each_caller_gets_a_descriptor_of_one_export) {
    Region &block = allocate_in_block();
    std::vector<thunk::Fd> descriptors;
    for (int i = 0; i < 10; ++i)
        descriptors.push_back(value(block.dmabuf()));
    EXPECT_EQ(count_exports(), 1u);
    for (std::size_t i = 0; i < descriptors.size(); ++i) {
        EXPECT_NE(fcntl(descriptors[i].get(), F_GETFD) & FD_CLOEXEC, 0);
        EXPECT_NE(descriptors[i].get(), block.export_descriptor()) << "the caller owns what it closes";
        for (std::size_t j = 0; j < i; ++j)
            EXPECT_NE(descriptors[i].get(), descriptors[j].get());
    }
    descriptors.clear();
    EXPECT_TRUE(value(block.dmabuf())) << "the export outlives its descriptors";
    EXPECT_EQ(count_exports(), 1u);
}

TEST_F(Export, dmabuf_is_the_whole_block_from_its_start) {
    Region &block = allocate_in_block();
    const auto descriptor = value(block.dmabuf());
    const std::string link = "/proc/self/fd/" + std::to_string(descriptor.get());
    const std::string name = std::filesystem::read_symlink(link);
    EXPECT_NE(name.find("dmabuf-0-" + std::to_string(kPage) + "-"), std::string::npos) << name;
}

TEST_F(Export, allocations_of_a_block_share_one_export) {
    Region &first = allocate_in_block(), &second = allocate_in_block();
    ASSERT_EQ(&first, &second);
    const auto a = value(first.dmabuf()), b = value(second.dmabuf());
    struct stat one {
    }, other{};
    ASSERT_EQ(fstat(a.get(), &one), 0);
    ASSERT_EQ(fstat(b.get(), &other), 0);
    EXPECT_EQ(one.st_ino, other.st_ino);
    EXPECT_EQ(count_exports(), 1u);
}

TEST_F(Export, descriptor_number_is_stable) {
    Region &block = allocate_in_block();
    const int number = block.export_descriptor();
    EXPECT_GE(number, 0);
    EXPECT_EQ(block.export_descriptor(), number);
    EXPECT_EQ(count_exports(), 1u);
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

TEST_P(ExportShortage, short_shortage_leaves_the_block_exportable) {
    fail_exports(GetParam(), 2);
    Region &block = allocate_in_block();
    EXPECT_TRUE(block.exportable());
    EXPECT_EQ(card().session()->exports(), Session::Exports::yes);
    EXPECT_TRUE(value(block.dmabuf()));
}

TEST_P(ExportShortage, lasting_shortage_forbids_the_export_after_8_tries) {
    fail_exports(GetParam());
    Region &block = allocate_in_block();
    EXPECT_FALSE(block.exportable());
    EXPECT_NE(block.why_no_export().find(GetParam()), std::string::npos) << block.why_no_export();
    EXPECT_EQ(card().session()->exports(), Session::Exports::unknown) << "the card may export its next block";
    for (int i = 0; i < 50; ++i)
        EXPECT_FALSE(allocate_in_block().exportable());
    EXPECT_EQ(Counters(card()).calls("device_mapped_memory_export_dmabuf_fd"), 8u);
}

TEST_P(ExportShortage, block_is_exportable_again_after_a_later_allocation) {
    fail_exports(GetParam(), 6);
    Region &block = allocate_in_block();
    EXPECT_FALSE(block.exportable());
    for (int i = 0; i < 3; ++i)
        allocate_in_block();
    EXPECT_TRUE(block.exportable());
    EXPECT_TRUE(value(block.dmabuf()));
}

TEST_P(ExportShortage, later_block_is_probed_when_it_is_mapped) {
    set("SOFTGAUDI_FAULTS", std::string("device_mapped_memory_export_dmabuf_fd#2+=") + GetParam());
    allocate_in_block();
    ASSERT_EQ(card().session()->exports(), Session::Exports::yes);
    EXPECT_FALSE(allocate_in_block(2 * kPage).exportable());
}

INSTANTIATE_TEST_SUITE_P(With, ExportShortage, ::testing::Values("ENOMEM", "EAGAIN", "EBUSY", "EMFILE"),
                         [](const auto &error) { return std::string(error.param); });

TEST_F(Export, listener_is_notified_when_a_shortage_has_ended) {
    struct Listener : MappingListener {
        void mapped(const Region &block) override { registrable.push_back(block.exportable()); }
        void unmapping(const Region &) override {}
        std::vector<bool> registrable;
    } listener;
    fail_exports("EMFILE", 4);
    LiveMappings::get().add_listener(cards(), listener);
    allocate_in_block();
    allocate_in_block();
    EXPECT_EQ(listener.registrable, (std::vector<bool>{false, true}));
    LiveMappings::get().remove_listener(listener);
}

TEST_F(Export, descriptor_shortage_stages_the_block_until_an_allocation_ends_it) {
    Region &block = allocate_in_block();
    const thunk::Fd last = value(block.dmabuf());
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    const auto allow = [&](rlim_t descriptors) {
        const rlimit now{descriptors, before.rlim_max};
        ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &now), 0);
    };
    allow(3); // 0, 1 and 2 are in use
    EXPECT_EQ(block.dmabuf().error().code, EMFILE);
    EXPECT_FALSE(block.exportable());
    allocate_in_block();
    EXPECT_FALSE(block.exportable()) << "there is still no descriptor";
    allow(before.rlim_cur);
    allocate_in_block();
    EXPECT_TRUE(block.exportable());
    EXPECT_TRUE(value(block.dmabuf()));
}

TEST_F(Export, new_generation_begins_unexported) {
    allocate_in_block();
    const std::uint64_t address = value(allocate(card(), {.length = 2 * kPage}));
    Region *block = find_region(address);
    value(block->dmabuf());
    free_on(card(), address);
    ASSERT_EQ(find_region(value(allocate(card(), {.length = 2 * kPage}))), block);
    EXPECT_FALSE(block->was_exported());
    EXPECT_TRUE(block->exportable());
    EXPECT_GE(block->export_descriptor(), 0);
}

TEST_F(Export, refused_export_makes_no_block_exportable) {
    set("SOFTGAUDI_FAULTS", "device_mapped_memory_export_dmabuf_fd=EINVAL");
    Region &block = allocate_in_block();
    EXPECT_FALSE(block.exportable());
    EXPECT_EQ(card().session()->exports(), Session::Exports::no);
    EXPECT_EQ(block.export_descriptor(), -1);
    const auto descriptor = block.dmabuf();
    ASSERT_FALSE(descriptor);
    EXPECT_EQ(descriptor.error().code, EINVAL);
    const std::uint64_t probed = Counters(card()).calls("device_mapped_memory_export_dmabuf_fd");
    EXPECT_FALSE(allocate_in_block(kPage).exportable()) << "the next block is refused too";
    EXPECT_EQ(Counters(card()).calls("device_mapped_memory_export_dmabuf_fd"), probed)
        << "the driver is not probed again";
}

TEST_F(Export, forbidden_export_keeps_the_reason) {
    Region &block = allocate_in_block();
    block.forbid_export("by the user");
    EXPECT_FALSE(block.exportable());
    EXPECT_EQ(block.why_no_export(), "by the user");
}

TEST_F(Export, refusal_of_one_card_leaves_the_others_exportable) {
    set("SOFTGAUDI_FAULTS", "device_mapped_memory_export_dmabuf_fd@0=EPERM");
    EXPECT_FALSE(allocate_in_block().exportable());
    const std::uint64_t other = value(allocate(card(1), {.length = kMiB}));
    EXPECT_TRUE(find_region(other)->exportable());
    EXPECT_TRUE(value(find_region(other)->dmabuf()));
}

// ---- a BAR that is shorter than the memory, as in virtual machines

class ShortBar : public Export {
protected:
    static void set_bar(std::uint64_t bytes) { set("SOFTGAUDI_BAR", std::to_string(bytes / kMiB)); }
    static void expect_copies(std::uint64_t address) {
        Mover mover(cards());
        const HostBuffer host(2 * kMiB);
        const Bytes sent = pattern(kMiB, 5);
        host.write(0, sent);
        ASSERT_TRUE(is_ok(mover.copy_now(address, host.address(), kMiB)));
        ASSERT_TRUE(is_ok(mover.copy_now(host.address(kMiB), address, kMiB)));
        EXPECT_TRUE(host.read(kMiB, kMiB) == sent);
    }
};

TEST_F(ShortBar, long_block_is_not_registrable_and_others_are) {
    set_bar(kPage);
    Region &large = allocate_in_block(4 * kPage);
    EXPECT_FALSE(large.exportable()) << "UCX stages it";
    EXPECT_FALSE(large.why_no_export().empty());
    Region &small = allocate_in_block();
    EXPECT_TRUE(small.exportable()) << "the first refusal was about its length";
    EXPECT_TRUE(is_ok(small.dmabuf()));
    EXPECT_FALSE(allocate_in_block(2 * kPage).exportable());
    expect_copies(large.base());
    expect_copies(small.base());
}

TEST_F(ShortBar, nothing_is_registrable_where_no_page_fits) {
    set_bar(kPage / 2);
    Region &first = allocate_in_block();
    EXPECT_FALSE(first.exportable());
    const std::uint64_t exports = Counters(card()).calls("device_mapped_memory_export_dmabuf_fd");
    EXPECT_FALSE(allocate_in_block(kPage).exportable());
    EXPECT_EQ(Counters(card()).calls("device_mapped_memory_export_dmabuf_fd"), exports) << "no other page fits either";
    expect_copies(first.base());
}

TEST_F(ShortBar, long_foreign_mapping_is_not_registrable_and_others_are) {
    set_bar(kPage);
    const FrameworkProgram framework(card().bus_id());
    Session &session = *card().find_session();
    ForeignMappings &foreign = session.get<ForeignMappings>();
    const auto note = [&](std::uint64_t size) -> Region & {
        const auto memory = framework.allocate(size);
        foreign.note_allocation(memory.handle, size);
        foreign.note_mapping(memory.address, memory.handle);
        return *find_region(memory.address);
    };
    EXPECT_TRUE(note(kPage).exportable());
    Region &large = note(4 * kPage);
    EXPECT_FALSE(large.exportable()) << "a registration would fail, and with it the program's";
    EXPECT_TRUE(note(kMiB).exportable());
    expect_copies(large.base());
}

} // namespace
