// SPDX-License-Identifier: BSD-3-Clause
// Handles of PyTorch in the place of addresses: one warning for them, and none for host memory.
#include "uct_side.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace uct_side;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

namespace {

constexpr std::uint64_t kSmall = 0x4040'0000;            // id 257 of the tensors below 4 MiB; ASan's memory is above
constexpr std::uint64_t kMedium = 0x4000'0001'0000'0000; // the first of those below 4 GiB
constexpr std::uint64_t kLarge = 0x8000'0400'0000'0010;  // the first of the others, and an offset

const void *pointer(std::uint64_t value) { return reinterpret_cast<const void *>(value); }

/// Host memory where small handles are, as a program has it that is linked to fixed addresses.
class LowMemory {
public:
    explicit LowMemory(int protection)
        : m_start(mmap(reinterpret_cast<void *>(kSmall), kMiB, protection,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0)) {
        EXPECT_EQ(m_start, pointer(kSmall));
    }
    ~LowMemory() { munmap(m_start, kMiB); }
    LowMemory(const LowMemory &) = delete;
    LowMemory &operator=(const LowMemory &) = delete;

private:
    void *m_start;
};

class TensorHandle : public ::testing::Test {
protected:
    e2e::Printed m_printed;
    const Domain m_domain;
};

TEST_F(TensorHandle, query_warns_once_and_says_what_to_do) {
    for (const std::uint64_t handle : {kLarge, kMedium, kSmall, kLarge})
        EXPECT_FALSE(m_domain.query(pointer(handle), 4096));
    EXPECT_THAT(m_printed.complaints(),
                ElementsAre(AllOf(HasSubstr("0x8000040000000010 is no memory of this process"),
                                  HasSubstr("PyTorch tensor"), HasSubstr("experimental._data_ptr(tensor)"))));
}

TEST_F(TensorHandle, each_size_class_is_recognised_by_detection) {
    for (const std::uint64_t handle : {kSmall, kMedium, kLarge}) {
        const pid_t child = fork();
        if (child == 0) {
            ucs_memory_type_t type = UCS_MEMORY_TYPE_UNKNOWN;
            uct_md_detect_memory_type(m_domain.md(), pointer(handle), 1, &type);
            _exit(m_printed.complaints().size() == 1 ? 0 : 1);
        }
        int status = 0;
        ASSERT_EQ(waitpid(child, &status, 0), child);
        EXPECT_EQ(status, 0) << std::hex << handle;
        ASSERT_EQ(ftruncate(STDOUT_FILENO, 0), 0); // each child counts its own lines
    }
}

TEST_F(TensorHandle, registration_warns) {
    const uct_mem_h memh = m_domain.reg(const_cast<void *>(pointer(kMedium)), kMiB);
    EXPECT_EQ(m_domain.dereg(memh), UCS_OK);
    EXPECT_THAT(m_printed.complaints(), ElementsAre(HasSubstr("0x4000000100000000 is no memory of this process")));
}

TEST_F(TensorHandle, host_memory_is_no_handle) {
    Bytes heap(100'000);
    static int fixed = 0;
    for (const int protection : {PROT_READ | PROT_WRITE, PROT_NONE}) {
        const LowMemory low(protection);
        for (const void *address :
             {pointer(kSmall), pointer(kSmall + kMiB - 1), static_cast<const void *>(heap.data()),
              static_cast<const void *>(&fixed), static_cast<const void *>(nullptr), pointer(4096)}) {
            EXPECT_FALSE(m_domain.query(address));
            const uct_mem_h memh = m_domain.reg(const_cast<void *>(address), 1);
            EXPECT_EQ(m_domain.dereg(memh), UCS_OK);
        }
    }
    EXPECT_THAT(m_printed.complaints(), IsEmpty());
}

TEST_F(TensorHandle, gaudi_memory_is_no_handle) {
    std::optional<Buffer> buffer(std::in_place, m_domain, kMiB);
    const unsigned char *address = buffer->data();
    EXPECT_TRUE(m_domain.query(address));
    buffer.reset();
    EXPECT_FALSE(m_domain.query(address + kPage));
    EXPECT_FALSE(m_domain.query(pointer(~std::uint64_t{0})));
    EXPECT_THAT(m_printed.complaints(), IsEmpty());
}

TEST_F(TensorHandle, lookups_of_low_host_memory_are_bounded) {
    {
        const LowMemory low(PROT_READ);
        for (int i = 0; i < 4096; ++i)
            EXPECT_FALSE(m_domain.query(pointer(kSmall)));
    }
    EXPECT_FALSE(m_domain.query(pointer(kSmall)));
    EXPECT_THAT(m_printed.complaints(), IsEmpty()) << "the kernel was asked once more";
    EXPECT_FALSE(m_domain.query(pointer(kMedium)));
    EXPECT_EQ(m_printed.complaints().size(), 1u) << "this one costs no system call";
}

} // namespace
