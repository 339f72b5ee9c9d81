// SPDX-License-Identifier: BSD-3-Clause
// Where RDMA devices get no dma-buf of Gaudi memory, one line of the log says why: a warning if the user demanded one.
#include "uct_side.h"

#include <stdlib.h>

#include <sstream>

using namespace uct_side;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

namespace {

constexpr const char *kRefused = "device_mapped_memory_export_dmabuf_fd=EINVAL";
constexpr const char *kStaged = "through host memory only";

class StagingNotice : public ::testing::Test {
protected:
    /// The lines about staging that are logged when a domain is opened twice and allocates.
    std::vector<std::string> open_and_find_notices(const char *dmabuf, const char *faults) {
        setenv("UCX_GAUDI_COPY_DMABUF", dmabuf, 1);
        setenv("SOFTGAUDI_FAULTS", faults, 1);
        for (unsigned i = 0; i < 2; ++i) {
            Domain domain;
            const Buffer one(domain, kMiB), other(domain, kMiB);
        }
        std::vector<std::string> found;
        std::istringstream lines(m_printed.text());
        for (std::string line; std::getline(lines, line);)
            if (line.find(kStaged) != std::string::npos)
                found.push_back(line);
        return found;
    }
    e2e::Printed m_printed;
};

TEST_F(StagingNotice, absent_where_memory_is_exported) {
    EXPECT_THAT(open_and_find_notices("try", ""), IsEmpty());
    EXPECT_THAT(m_printed.complaints(), IsEmpty());
}

TEST_F(StagingNotice, names_the_setting_with_dmabuf_off) {
    EXPECT_THAT(open_and_find_notices("n", ""),
                AllOf(SizeIs(1), Contains(AllOf(HasSubstr(" DIAG "), HasSubstr("UCX_GAUDI_COPY_DMABUF=n")))));
}

TEST_F(StagingNotice, names_the_errno_of_a_refused_export) {
    EXPECT_THAT(open_and_find_notices("try", kRefused),
                AllOf(SizeIs(1), Contains(AllOf(HasSubstr(" DIAG "), HasSubstr("EINVAL")))));
    EXPECT_THAT(m_printed.complaints(), IsEmpty());
}

TEST_F(StagingNotice, names_the_errno_of_a_lasting_shortage) {
    EXPECT_THAT(open_and_find_notices("try", "device_mapped_memory_export_dmabuf_fd=EMFILE"),
                AllOf(SizeIs(1), Contains(AllOf(HasSubstr(" DIAG "), HasSubstr("EMFILE")))));
    EXPECT_THAT(m_printed.complaints(), IsEmpty());
}

TEST_F(StagingNotice, is_a_warning_where_zero_copy_was_demanded) {
    EXPECT_THAT(open_and_find_notices("y", kRefused),
                AllOf(SizeIs(1), Contains(AllOf(HasSubstr(" WARN "), HasSubstr("EINVAL")))));
}

} // namespace
