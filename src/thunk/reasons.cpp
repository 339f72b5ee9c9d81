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

constexpr Reason by_call[] = {
    {"hlthunk_open", EBUSY, "another process, or another part of this one, has the card open"},
    {"hlthunk_open", EAGAIN, "the card is being reset or released, so trying again later may help"},
    {"hlthunk_open", EPERM, "the card is disabled or needs a reset"},
    {"hlthunk_open", EINVAL, "no card has this bus id"},
    {"hlthunk_open", ENOENT, "there is no such card"},
    {"hlthunk_open_control", ENOENT, "there is no such card"},
    {"hlthunk_open_control", EPERM, "the card is disabled"},

    {"hlthunk_device_memory_alloc", ENOMEM, "the card has not enough free memory"},
    {"hlthunk_device_memory_alloc", EINVAL, "the size is zero or the page size is not one of the card's"},
    {"hlthunk_device_memory_free", EINVAL, "the handle is unknown or still mapped"},
    {"hlthunk_host_memory_map", EFAULT, "the memory cannot be pinned for writing"},
    {"hlthunk_memory_unmap", EINVAL, "the address is not mapped, or a dma-buf of it is still alive"},
    {"hlthunk_device_mapped_memory_export_dmabuf_fd", EINVAL,
     "the address is not where a mapping of card memory starts, or offset or size do not fit whole pages of it"},

    {"hlthunk_command_submission", EINVAL, "the driver refused a chunk: its queue, its command buffer or their number"},
    {"hlthunk_wait_for_cs", EINVAL, "the sequence number was never given out"},
    {"hlthunk_wait_for_cs", ETIMEDOUT, "the submission ran into the driver's time limit"},
    {"hlthunk_wait_for_cs", EIO, "the submission was aborted by a reset of the card"},
};

constexpr Reason by_code[] = {
    {nullptr, EBUSY, "the card is not operational, most likely in reset"},
    {nullptr, ENODEV, "the card is gone"},
    {nullptr, ENOTTY, "the descriptor is not one of a card, or a control descriptor, which gives information only"},
};

} // namespace

const char *known_reason(std::string_view call, int code) noexcept {
    for (const Reason &reason : by_call) {
        if (reason.code == code && call == reason.call)
            return reason.text;
    }
    if (call.substr(0, 8) != "hlthunk_")
        return nullptr;
    for (const Reason &reason : by_code) {
        if (reason.code == code)
            return reason.text;
    }
    return nullptr;
}

} // namespace gaudi::thunk
