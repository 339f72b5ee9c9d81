// SPDX-License-Identifier: BSD-3-Clause
// Buffers on cards, through the C API that libgaudi-core.so.1 exports.
#include "buffer/buffer.h"

#include "soft/soft.h"

#include <gmock/gmock.h>

#include <sys/wait.h>

#include <algorithm>
#include <set>
#include <thread>

namespace {

using ::testing::HasSubstr;
using Bytes = std::vector<unsigned char>;

constexpr std::size_t kSize = 3 * soft::kMiB + 5;

/// What a call returned.
struct Outcome {
    int code = 0;
    std::array<char, 400> problem{};

    std::string text() const { return problem.data(); }
};

template <class Call, class... Arguments>
Outcome call(Call &&function, Arguments... arguments) {
    Outcome outcome;
    outcome.code = function(arguments..., outcome.problem.data(), outcome.problem.size());
    EXPECT_EQ(outcome.code == 0, outcome.text().empty()) << "a failure and only a failure has a sentence";
    return outcome;
}

Bytes pattern(std::size_t size) {
    Bytes bytes(size);
    for (std::size_t i = 0; i < size; ++i)
        bytes[i] = static_cast<unsigned char>(i * 7 + i / 251);
    return bytes;
}

class BufferTest : public ::testing::Test {
protected:
    BufferTest() {
        for (const char *name : {"GAUDI_MAPPING_TABLE", "HABANA_VISIBLE_MODULES", "HLS_MODULE_ID"})
            unsetenv(name);
        soft::set("GAUDI_THUNK", SOFTGAUDI_LIBRARY);
        soft::set("SOFTGAUDI_CARDS", "2");
    }

    static unsigned char *allocate(std::size_t size = kSize, const char *device = nullptr) {
        void *address = nullptr;
        const Outcome outcome = call(gaudi_buffer_allocate, device, std::uint64_t{size}, &address);
        EXPECT_EQ(outcome.code, 0) << outcome.text();
        return static_cast<unsigned char *>(address);
    }
    static void write(unsigned char *address, const Bytes &bytes) {
        const Outcome outcome = call(gaudi_buffer_write, address, bytes.data(), std::uint64_t{bytes.size()});
        EXPECT_EQ(outcome.code, 0) << outcome.text();
    }
    static Bytes read(const unsigned char *address, std::size_t size) {
        Bytes bytes(size);
        const Outcome outcome = call(gaudi_buffer_read, bytes.data(), address, std::uint64_t{size});
        EXPECT_EQ(outcome.code, 0) << outcome.text();
        return bytes;
    }
    static Outcome free(void *address) { return call(gaudi_buffer_free, address); }
    static std::string card_of(const void *address) {
        std::array<char, 16> bus_id{};
        EXPECT_EQ(gaudi_buffer_card(address, bus_id.data(), bus_id.size()), 0);
        return bus_id.data();
    }
    static void expect_refused(const Outcome &outcome, int code, const std::string &sentence) {
        EXPECT_EQ(outcome.code, code);
        EXPECT_THAT(outcome.text(), HasSubstr(sentence));
    }

    soft::FreshDirectory m_cards{"SOFTGAUDI_DIR", "softgaudi"};
    unsigned char m_byte = 0;
};

TEST_F(BufferTest, write_and_read_give_every_byte_back) {
    unsigned char *buffer = allocate();
    const Bytes bytes = pattern(kSize);
    write(buffer, bytes);
    EXPECT_EQ(read(buffer, kSize), bytes);
    write(buffer + 12345, {1, 2, 3});
    EXPECT_EQ(read(buffer + 12344, 5), (Bytes{bytes[12344], 1, 2, 3, bytes[12348]}));
    EXPECT_EQ(free(buffer).code, 0);
}

TEST_F(BufferTest, fill_sets_its_range_and_no_other_byte) {
    unsigned char *buffer = allocate();
    Bytes bytes = pattern(kSize);
    write(buffer, bytes);
    EXPECT_EQ(call(gaudi_buffer_fill, buffer + 1, 0x1a5, std::uint64_t{kSize - 2}).code, 0);
    std::fill(bytes.begin() + 1, bytes.end() - 1, 0xa5);
    EXPECT_EQ(read(buffer, kSize), bytes);
    free(buffer);
}

TEST_F(BufferTest, empty_copies_succeed) {
    unsigned char *buffer = allocate(1);
    EXPECT_EQ(call(gaudi_buffer_write, buffer + 1, nullptr, std::uint64_t{0}).code, 0);
    EXPECT_EQ(call(gaudi_buffer_read, nullptr, buffer + 1, std::uint64_t{0}).code, 0);
    EXPECT_EQ(call(gaudi_buffer_fill, buffer + 1, 0, std::uint64_t{0}).code, 0);
    free(buffer);
}

TEST_F(BufferTest, device_chooses_the_card) {
    unsigned char *first = allocate(1, "0"), *second = allocate(1, "1");
    const std::string bus_id = card_of(second);
    EXPECT_NE(card_of(first), bus_id);
    unsigned char *named = allocate(1, bus_id.c_str()), *any = allocate(1, "auto");
    EXPECT_EQ(card_of(named), bus_id);
    EXPECT_THAT((std::set{card_of(first), bus_id}), ::testing::Contains(card_of(any)));
    for (unsigned char *buffer : {first, second, named, any})
        free(buffer);
}

TEST_F(BufferTest, unknown_card_is_refused) {
    void *address = nullptr;
    expect_refused(call(gaudi_buffer_allocate, "7", std::uint64_t{1}, &address), ENODEV, "there is no card '7'");
    expect_refused(call(gaudi_buffer_allocate, "", std::uint64_t{1}, &address), ENODEV, "there is no card ''");
    EXPECT_EQ(address, nullptr);
}

TEST_F(BufferTest, lengths_that_no_card_has_are_refused) {
    void *address = nullptr;
    expect_refused(call(gaudi_buffer_allocate, nullptr, std::uint64_t{0}, &address), EINVAL, "cannot allocate 0 bytes");
    expect_refused(call(gaudi_buffer_allocate, nullptr, UINT64_MAX, &address), ENOMEM, "are more than");
}

TEST_F(BufferTest, missing_library_is_named) {
    soft::set("GAUDI_THUNK", "/nowhere/libhl-thunk.so");
    void *address = nullptr;
    const Outcome outcome = call(gaudi_buffer_allocate, nullptr, std::uint64_t{1}, &address);
    EXPECT_NE(outcome.code, 0);
    EXPECT_THAT(outcome.text(), HasSubstr("GAUDI_THUNK=/nowhere/libhl-thunk.so"));
}

TEST_F(BufferTest, range_beyond_the_buffer_is_refused) {
    unsigned char *buffer = allocate(100), *next = allocate(100);
    Bytes bytes(101);
    const std::string sentence = "are not inside the buffer of 100 bytes";
    expect_refused(call(gaudi_buffer_write, buffer, bytes.data(), std::uint64_t{101}), EINVAL, "101 bytes at");
    expect_refused(call(gaudi_buffer_read, bytes.data(), buffer + 99, std::uint64_t{2}), EINVAL, sentence);
    expect_refused(call(gaudi_buffer_fill, buffer + 50, 0, UINT64_MAX), EINVAL, sentence);
    expect_refused(call(gaudi_buffer_write, buffer + 100, bytes.data(), std::uint64_t{1}), EINVAL, "is in no buffer");
    free(buffer);
    free(next);
}

TEST_F(BufferTest, address_that_is_no_buffer_is_refused) {
    Bytes bytes(1);
    expect_refused(call(gaudi_buffer_write, bytes.data(), &m_byte, std::uint64_t{1}), EINVAL, "is in no buffer");
    expect_refused(call(gaudi_buffer_fill, nullptr, 0, std::uint64_t{1}), EINVAL, "is in no buffer");
    expect_refused(free(bytes.data()), EINVAL, "no buffer starts there");
    expect_refused(free(nullptr), EINVAL, "no buffer starts there");
    EXPECT_EQ(gaudi_buffer_card(bytes.data(), nullptr, 0), EINVAL);
}

TEST_F(BufferTest, other_end_that_is_no_host_memory_is_refused) {
    unsigned char *buffer = allocate(100);
    expect_refused(call(gaudi_buffer_write, buffer, nullptr, std::uint64_t{1}), EINVAL, "0x0 is not host memory");
    expect_refused(call(gaudi_buffer_read, buffer + 50, buffer, std::uint64_t{1}), EINVAL, "is not host memory");
    free(buffer);
}

TEST_F(BufferTest, second_free_is_refused) {
    unsigned char *buffer = allocate(), *other = allocate();
    expect_refused(free(buffer + 4096), EINVAL, "no buffer starts there");
    EXPECT_EQ(free(buffer).code, 0);
    expect_refused(free(buffer), EINVAL, "it may have been freed before");
    expect_refused(call(gaudi_buffer_write, buffer, &m_byte, std::uint64_t{1}), EINVAL, "is in no buffer");
    EXPECT_EQ(free(other).code, 0);
}

TEST_F(BufferTest, freed_memory_is_allocated_again) {
    const std::size_t nearly_all = 90 * soft::kGiB; // of 96
    for (unsigned round = 0; round < 3; ++round) {
        unsigned char *buffer = allocate(nearly_all, "0");
        write(buffer + nearly_all - 1, {7});
        free(buffer);
    }
}

TEST_F(BufferTest, problem_is_cut_to_its_size_and_may_be_missing) {
    std::array<char, 8> problem{};
    EXPECT_EQ(gaudi_buffer_free(nullptr, problem.data(), problem.size()), EINVAL);
    EXPECT_STREQ(problem.data(), "cannot ");
    EXPECT_EQ(gaudi_buffer_free(nullptr, nullptr, 0), EINVAL);
    unsigned char *buffer = allocate(1);
    EXPECT_EQ(gaudi_buffer_card(buffer, problem.data(), problem.size()), ERANGE);
    free(buffer);
}

TEST_F(BufferTest, card_without_a_copy_path_refuses_copies_and_says_so) {
    soft::set("SOFTGAUDI_MODEL", "gaudi3");
    unsigned char *buffer = allocate();
    expect_refused(call(gaudi_buffer_write, buffer, &m_byte, std::uint64_t{1}), ENOTSUP, "takes no copies");
    EXPECT_EQ(free(buffer).code, 0) << "the copy has ended";
}

TEST_F(BufferTest, card_that_was_reset_is_closed_by_the_next_call) {
    soft::set("SOFTGAUDI_FAULTS", "command_submission#36=reset");
    unsigned char *buffer = allocate();
    const Bytes bytes = pattern(kSize);
    Outcome outcome;
    while (outcome.code == 0)
        outcome = call(gaudi_buffer_write, buffer, bytes.data(), std::uint64_t{kSize});
    EXPECT_EQ(outcome.code, EIO) << outcome.text();
    expect_refused(call(gaudi_buffer_write, buffer, bytes.data(), std::uint64_t{kSize}), ENODEV,
                   "was reset by its driver");
    EXPECT_EQ(free(buffer).code, 0);
    unsigned char *next = allocate();
    write(next, bytes);
    EXPECT_EQ(read(next, kSize), bytes);
    free(next);
}

TEST_F(BufferTest, threads_copy_at_the_same_time) {
    std::vector<std::thread> threads;
    for (unsigned seed = 0; seed < 4; ++seed)
        threads.emplace_back([seed] {
            for (unsigned round = 0; round < 8; ++round) {
                unsigned char *buffer = allocate(kSize, seed % 2 == 0 ? "0" : "1");
                Bytes bytes = pattern(kSize);
                bytes[0] = static_cast<unsigned char>(seed * 8 + round);
                write(buffer, bytes);
                EXPECT_EQ(read(buffer, kSize), bytes);
                EXPECT_EQ(free(buffer).code, 0);
            }
        });
    for (std::thread &thread : threads)
        thread.join();
}

TEST_F(BufferTest, free_is_refused_while_another_thread_copies) {
    const Bytes bytes = pattern(kSize);
    for (bool seen = false; !seen;) {
        unsigned char *buffer = allocate();
        std::thread writer([&] {
            while (gaudi_buffer_write(buffer, bytes.data(), kSize, nullptr, 0) == 0) {
            }
        });
        for (Outcome outcome = free(buffer); outcome.code != 0; outcome = free(buffer)) {
            seen = true;
            expect_refused(outcome, EBUSY, "a copy of another thread uses the buffer");
        }
        writer.join();
    }
}

#ifndef __SANITIZE_THREAD__ // which ends a forked child that starts a thread
TEST_F(BufferTest, forked_child_leaves_buffers_to_its_parent) {
    unsigned char *buffer = allocate(kSize, "0");
    write(buffer, pattern(kSize));
    const pid_t child = fork();
    if (child == 0) {
        alarm(60); // rather than hang
        expect_refused(call(gaudi_buffer_write, buffer, &m_byte, std::uint64_t{1}), ENODEV, "is its parent's");
        EXPECT_EQ(free(buffer).code, 0) << "as a destructor does";
        unsigned char *own = allocate(kSize, "1");
        write(own, pattern(kSize));
        EXPECT_EQ(read(own, kSize), pattern(kSize));
        _exit(HasFailure() ? 1 : 0);
    }
    int status = 1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(read(buffer, kSize), pattern(kSize));
    EXPECT_EQ(free(buffer).code, 0);
}
#endif

/// A framework in this process, whose kernels are outside of UCX: it reads what RDMA wrote to its memory.
class RdmaFlush : public BufferTest {
protected:
    RdmaFlush() { soft::set("SOFTGAUDI_QUIRKS", "posted"); }

    struct Received {
        explicit Received(soft::Card &card) : address(card.memory()) {
            const int dmabuf = hlthunk_device_memory_export_dmabuf_fd(card.fd, address, soft::kPage, 0);
            EXPECT_EQ(pwrite(dmabuf, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
            close(dmabuf);
        }
        /// What an engine of the card reads.
        Bytes read(soft::Card &card) const {
            Bytes seen(bytes.size());
            card.run(soft::kUp, soft::Packets().copy(address, card.map(seen), static_cast<std::uint32_t>(seen.size())));
            return seen;
        }
        const void *pointer() const { return reinterpret_cast<const void *>(address); }

        const Bytes bytes = pattern(5000);
        const std::uint64_t address;
    };
};

TEST_F(RdmaFlush, kernel_of_the_framework_sees_writes_only_after_it) {
    soft::Card card;
    const Received received(card);
    EXPECT_NE(received.read(card), received.bytes);
    EXPECT_EQ(call(gaudi_flush_rdma_writes, received.pointer()).code, 0);
    EXPECT_EQ(received.read(card), received.bytes);
}

TEST_F(RdmaFlush, without_an_address_all_open_cards_are_flushed) {
    soft::Card first, second;
    const Received on_first(first), on_second(second);
    EXPECT_EQ(call(gaudi_flush_rdma_writes, nullptr).code, 0);
    EXPECT_EQ(on_first.read(first), on_first.bytes);
    EXPECT_EQ(on_second.read(second), on_second.bytes);
}

TEST_F(RdmaFlush, process_without_an_open_card_has_nothing_to_flush) {
    EXPECT_EQ(call(gaudi_flush_rdma_writes, nullptr).code, 0);
}

TEST_F(RdmaFlush, address_of_other_memory_is_refused) {
    unsigned char *buffer = allocate();
    EXPECT_EQ(call(gaudi_flush_rdma_writes, buffer + 1).code, 0);
    expect_refused(call(gaudi_flush_rdma_writes, &m_byte), EINVAL, "is in no Gaudi memory of this process");
    free(buffer);
}

TEST_F(RdmaFlush, refusal_of_the_driver_is_returned) {
    soft::set("SOFTGAUDI_FAULTS", "cs_flush_pci_hbw_writes=EIO");
    unsigned char *buffer = allocate();
    expect_refused(call(gaudi_flush_rdma_writes, buffer), EIO, "hlthunk_cs_flush_pci_hbw_writes");
    expect_refused(call(gaudi_flush_rdma_writes, nullptr), EIO, "hlthunk_cs_flush_pci_hbw_writes");
    free(buffer);
}

} // namespace
