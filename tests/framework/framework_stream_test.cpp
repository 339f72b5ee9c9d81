// SPDX-License-Identifier: BSD-3-Clause
// Copies by SynapseAI's calls: bytes, polling for completion, and error messages.
#include "gaudi/framework/synapse_stream.h"
#include "synapse_fixture.h"
#include "thunk/reported.h"

#include <gmock/gmock.h>

using namespace gaudi;
using namespace gaudi::test;
using ::testing::HasSubstr;
using ::testing::Not;

namespace {

std::uint64_t address(const void *pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

class SynapseStreamTest : public SynapseTest {
protected:
    static bool finish(SynapseStream &stream) {
        const std::uint64_t number = value(stream.record_event());
        return until([&] { return value(stream.has_ended(number)); });
    }
    static std::vector<unsigned char> pattern(std::size_t length, unsigned char first) {
        std::vector<unsigned char> bytes(length);
        unsigned char next = first;
        for (unsigned char &byte : bytes)
            byte = next = static_cast<unsigned char>(next * 5 + 13);
        return bytes;
    }
    static void expect_message(const Error &error, int code, const char *call, const char *status) {
        EXPECT_EQ(error.code, code) << error.text;
        EXPECT_STREQ(error.call, call);
        EXPECT_THAT(error.text, HasSubstr(call));
        EXPECT_THAT(error.text, HasSubstr(status));
        EXPECT_THAT(error.text, Not(HasSubstr("\n")));
    }
};

TEST_F(SynapseStreamTest, copies_down_across_and_up_in_order) {
    const auto stream = value(SynapseStream::create(acquire()));
    for (const std::size_t length : {std::size_t{1}, std::size_t{4097}, std::size_t{3} << 20}) {
        const auto sent = pattern(length, static_cast<unsigned char>(length));
        std::vector<unsigned char> source = sent, got(length);
        const std::uint64_t first = allocate(length), second = allocate(length);
        value(stream->map_host(source.data(), length));
        value(stream->map_host(got.data(), length));
        value(stream->copy(vendor::HOST_TO_DRAM, first, address(source.data()), length));
        value(stream->copy(vendor::DRAM_TO_DRAM, second, first, length));
        value(stream->copy(vendor::DRAM_TO_HOST, address(got.data()), second, length));
        ASSERT_TRUE(finish(*stream));
        EXPECT_EQ(got, sent);
        value(stream->unmap_host(source.data()));
        value(stream->unmap_host(got.data()));
    }
}

TEST_F(SynapseStreamTest, copies_part_of_mapped_memory) {
    const auto stream = value(SynapseStream::create(acquire()));
    std::vector<unsigned char> host = pattern(64 * kKiB, 7), expected = host;
    std::copy_n(expected.begin() + 1000, 500, expected.begin() + 30000);
    const std::uint64_t memory = allocate(64 * kKiB);
    value(stream->map_host(host.data(), host.size()));
    value(stream->copy(vendor::HOST_TO_DRAM, memory + 3, address(host.data() + 1000), 500));
    value(stream->copy(vendor::DRAM_TO_HOST, address(host.data() + 30000), memory + 3, 500));
    ASSERT_TRUE(finish(*stream));
    EXPECT_EQ(host, expected);
}

TEST_F(SynapseStreamTest, length_0_copies_nothing) {
    const auto stream = value(SynapseStream::create(acquire()));
    EXPECT_TRUE(stream->copy(vendor::HOST_TO_DRAM, 1, 1, 0));
    EXPECT_TRUE(finish(*stream));
}

TEST_F(SynapseStreamTest, later_event_covers_earlier_ones) {
    const auto stream = value(SynapseStream::create(acquire()));
    const std::uint64_t memory = allocate(16 * kMiB);
    std::uint64_t last = 0;
    std::vector<std::uint64_t> numbers;
    for (int i = 0; i < 300; ++i) {
        value(stream->copy(vendor::DRAM_TO_DRAM, memory + 8 * kMiB, memory, 64 * kKiB));
        numbers.push_back(value(stream->record_event()));
        EXPECT_GT(numbers.back(), last);
        last = numbers.back();
    }
    ASSERT_TRUE(until([&] { return value(stream->has_ended(last)); }));
    for (const std::uint64_t number : numbers)
        EXPECT_TRUE(value(stream->has_ended(number)));
}

TEST_F(SynapseStreamTest, busy_event_has_not_ended) {
    const auto stream = value(SynapseStream::create(acquire()));
    const std::uint64_t number = value(stream->record_event());
    set("STANDIN_FAULT", "synEventQuery:" + std::to_string(vendor::synBusy));
    EXPECT_FALSE(value(stream->has_ended(number)));
    unsetenv("STANDIN_FAULT");
    EXPECT_TRUE(until([&] { return value(stream->has_ended(number)); }));
}

TEST_F(SynapseStreamTest, destruction_waits_for_outstanding_copies) {
    const Synapse &framework = acquire();
    const std::uint64_t memory = allocate(64 * kMiB);
    std::vector<unsigned char> sent = pattern(32 * kMiB, 1), got(sent.size());
    const thunk::Reported reported;
    {
        const auto stream = value(SynapseStream::create(framework));
        value(stream->map_host(sent.data(), sent.size()));
        value(stream->map_host(got.data(), got.size()));
        value(stream->copy(vendor::HOST_TO_DRAM, memory, address(sent.data()), sent.size()));
        value(stream->record_event());
        value(stream->copy(vendor::DRAM_TO_HOST, address(got.data()), memory, got.size()));
    }
    EXPECT_EQ(got, sent);
    EXPECT_TRUE(thunk::Reported::errors().empty());
}

TEST_F(SynapseStreamTest, unmapped_host_memory_is_refused) {
    const auto stream = value(SynapseStream::create(acquire()));
    std::vector<unsigned char> host(8 * kKiB);
    const std::uint64_t memory = allocate(8 * kKiB);
    const auto refused = stream->copy(vendor::HOST_TO_DRAM, memory, address(host.data()), host.size());
    ASSERT_FALSE(refused);
    expect_message(refused.error(), EFAULT, "synMemCopyAsync", "synMappingNotFound");
    const auto unknown = stream->unmap_host(host.data());
    ASSERT_FALSE(unknown);
    expect_message(unknown.error(), EINVAL, "synHostUnmap", "synInvalidArgument");
}

TEST_F(SynapseStreamTest, unknown_event_is_refused) {
    const auto stream = value(SynapseStream::create(acquire()));
    const auto unknown = stream->has_ended(1);
    ASSERT_FALSE(unknown);
    expect_message(unknown.error(), EINVAL, "synEventQuery", "never recorded");
}

TEST_F(SynapseStreamTest, error_names_call_and_status) {
    const Synapse &framework = acquire();
    set("STANDIN_FAULT", "synStreamCreateGeneric:23");
    const auto none = SynapseStream::create(framework);
    ASSERT_FALSE(none);
    expect_message(none.error(), EAGAIN, "synStreamCreateGeneric", "synAllResourcesTaken");
    unsetenv("STANDIN_FAULT");

    const auto stream = value(SynapseStream::create(framework));
    std::vector<unsigned char> host(8 * kKiB);
    set("STANDIN_FAULT", "synHostMap:3");
    const auto unmapped = stream->map_host(host.data(), host.size());
    ASSERT_FALSE(unmapped);
    expect_message(unmapped.error(), ENOMEM, "synHostMap", "synOutOfHostMemory");

    set("STANDIN_FAULT", "synEventCreate:27");
    auto unrecorded = stream->record_event();
    ASSERT_FALSE(unrecorded);
    expect_message(unrecorded.error(), EAGAIN, "synEventCreate", "synOutOfResources");
    set("STANDIN_FAULT", "synEventRecord:31");
    unrecorded = stream->record_event();
    ASSERT_FALSE(unrecorded);
    expect_message(unrecorded.error(), ENODEV, "synEventRecord", "synSynapseTerminated");
    unsetenv("STANDIN_FAULT");

    const std::uint64_t number = value(stream->record_event());
    set("STANDIN_FAULT", "synEventQuery:17");
    const auto lost = stream->has_ended(number);
    ASSERT_FALSE(lost);
    expect_message(lost.error(), EIO, "synEventQuery", "synDeviceReset");
    set("STANDIN_FAULT", "synEventQuery:99");
    const auto strange = stream->has_ended(number);
    ASSERT_FALSE(strange);
    expect_message(strange.error(), EIO, "synEventQuery", "99");
}

TEST_F(SynapseStreamTest, failed_release_is_reported) {
    auto stream = value(SynapseStream::create(acquire()));
    const thunk::Reported reported;
    set("STANDIN_FAULT", "synStreamDestroy:22");
    stream.reset();
    ASSERT_EQ(thunk::Reported::errors().size(), 1u);
    expect_message(thunk::Reported::errors()[0], EBUSY, "synStreamDestroy", "synBusy");
}

TEST_F(SynapseStreamTest, creation_without_a_card_is_refused) {
    load();
    const auto stream = SynapseStream::create(*Synapse::loaded());
    ASSERT_FALSE(stream);
    expect_message(stream.error(), ENODEV, "synStreamCreateGeneric", "synUninitialized");
}

TEST_F(SynapseStreamTest, library_without_a_function_does_not_copy) {
    const Synapse &framework = acquire(0, STANDIN_OLD_SYNAPSE);
    EXPECT_FALSE(framework.can_copy());
    const auto stream = SynapseStream::create(framework);
    ASSERT_FALSE(stream);
    expect_message(stream.error(), ENOSYS, "synStreamCreateGeneric", "lacks");
}

TEST_F(SynapseStreamTest, library_with_all_functions_copies) {
    load();
    EXPECT_TRUE(Synapse::loaded()->can_copy());
}

} // namespace
