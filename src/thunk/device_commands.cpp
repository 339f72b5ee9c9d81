// SPDX-License-Identifier: BSD-3-Clause
#include "calls.h"
#include "device.h"

#include <algorithm>

namespace gaudi::thunk {

Result<std::uint64_t> Device::submit(std::span<const hl_cs_chunk> chunks, std::uint32_t flags) const {
    constexpr const char *kName = "hlthunk_command_submission";
    if (chunks.size() > HL_MAX_JOBS_PER_CS) // before the count is cut to 32 bits
        return tl::unexpected(make_error(EINVAL, kName, os::format("{} chunks", chunks.size()),
                                         os::format("a submission has {} chunks at most", int{HL_MAX_JOBS_PER_CS})));

    hlthunk_cs_in in{};
    in.chunks_execute = const_cast<hl_cs_chunk *>(chunks.data()); // the library only reads it; the ABI has no const
    in.num_chunks_execute = static_cast<std::uint32_t>(chunks.size());
    in.flags = flags;
    Roomy<hlthunk_cs_out> out;
    const int rc = invoke(m_library->call().command_submission, m_fd, &in, &out.value);
    if (rc < 0)
        return tl::unexpected(from_negative(rc, kName, os::format("{} chunks", chunks.size())));
    return out.value.seq;
}

Result<Wait> Device::wait(std::uint64_t sequence, std::chrono::microseconds timeout) const {
    constexpr const char *kName = "hlthunk_wait_for_cs";
    const auto timeout_us = static_cast<std::uint64_t>(std::max<std::int64_t>(timeout.count(), 0));
    std::uint32_t status = HL_WAIT_CS_STATUS_BUSY;
    const int rc = invoke(m_library->call().wait_for_cs, m_fd, sequence, timeout_us, &status);
    // After most errors the status is not set; where it is, it only repeats the errno.
    if (rc < 0)
        return tl::unexpected(from_negative(rc, kName, std::to_string(sequence)));

    switch (status) {
    case HL_WAIT_CS_STATUS_COMPLETED:
        return Wait::done;
    case HL_WAIT_CS_STATUS_BUSY:
        return Wait::busy;
    case HL_WAIT_CS_STATUS_TIMEDOUT:
        return tl::unexpected(make_error(ETIMEDOUT, kName, std::to_string(sequence)));
    case HL_WAIT_CS_STATUS_ABORTED:
        return tl::unexpected(make_error(EIO, kName, std::to_string(sequence)));
    default:
        return tl::unexpected(make_error(EPROTO, kName, std::to_string(sequence),
                                         os::format("it returned the unknown status {}", status)));
    }
}

Result<void> Device::flush_pci_writes() const {
    constexpr const char *kName = "hlthunk_cs_flush_pci_hbw_writes";
    if (!m_library->has_flush())
        return tl::unexpected(m_library->lacks(kName));
    const int rc = invoke(m_library->call().cs_flush_pci_hbw_writes, m_fd);
    if (rc < 0)
        return tl::unexpected(from_negative(rc, kName));
    return {};
}

} // namespace gaudi::thunk
