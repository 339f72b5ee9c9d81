// SPDX-License-Identifier: BSD-3-Clause
#include "reasons.h"

#include <cerrno>

namespace gaudi::thunk {
namespace {

struct Reason {
    const char *call;
    int code;
    const char *text;
};

constexpr Reason kByCall[] = {
    {"hlthunk_open", EBUSY,
     "another process, or another library in this one, has the card open; `ucx_gaudi info` names the process"},
    {"hlthunk_open", EAGAIN, "the card is being reset or released; try again in a few seconds"},
    {"hlthunk_open", EPERM, "the card is disabled or needs a reset; the kernel log says why"},
    {"hlthunk_open", EINVAL, "no card has this bus id"},
    {"hlthunk_open", ENOENT, "there is no such card"},

    {"hlthunk_device_memory_alloc", ENOMEM, "the card has not enough free memory"},
    {"hlthunk_device_memory_alloc", EINVAL, "the driver refuses this size, which must be above zero"},
    {"hlthunk_device_memory_free", EINVAL, "the handle is unknown or still mapped"},
    {"hlthunk_host_memory_map", EFAULT,
     "the host memory cannot be pinned for writing: it is not mapped, or mapped read-only"},
    {"hlthunk_memory_unmap", EINVAL, "no mapping starts at this address, or a dma-buf exported from it is still open"},
    {"hlthunk_device_mapped_memory_export_dmabuf_fd", EINVAL,
     "no mapping of card memory starts at this address, or the size is no whole number of its pages"},

    {"hlthunk_command_submission", EINVAL,
     "the driver refused a chunk: its queue, its command buffer, or the number of chunks"},
    {"hlthunk_wait_for_cs", EINVAL, "the driver never gave out this sequence number"},
    {"hlthunk_wait_for_cs", ETIMEDOUT, "the submission exceeded the driver's time limit"},
    {"hlthunk_wait_for_cs", EIO, "a reset of the card aborted the submission"},
};

constexpr Reason kByErrno[] = {
    {nullptr, EBUSY, "the card is not operational, most likely in reset"},
    {nullptr, ENODEV, "the card was removed, or its driver unloaded"},
    {nullptr, ENOTTY, "the descriptor is not that of a card, or a control descriptor, which allows queries only"},
};

} // namespace

const char *known_reason(std::string_view call, int code) noexcept {
    for (const Reason &reason : kByCall) {
        if (reason.code == code && call == reason.call)
            return reason.text;
    }
    if (call.substr(0, 8) != "hlthunk_")
        return nullptr;
    for (const Reason &reason : kByErrno) {
        if (reason.code == code)
            return reason.text;
    }
    return nullptr;
}

} // namespace gaudi::thunk
