// SPDX-License-Identifier: BSD-3-Clause
#include "synapse_status.h"

#include "os/format.h"
#include "thunk/error.h"

#include <cerrno>

namespace gaudi::vendor {
namespace {

struct Answer {
    Status status;
    int code;
    const char *name;
};

#define GAUDI_SYNAPSE_ANSWER(status, code)                                                                             \
    Answer { status, code, #status }
constexpr Answer kAnswers[] = {
    GAUDI_SYNAPSE_ANSWER(synInvalidArgument, EINVAL),
    GAUDI_SYNAPSE_ANSWER(synOutOfHostMemory, ENOMEM),
    GAUDI_SYNAPSE_ANSWER(synOutOfDeviceMemory, ENOMEM),
    GAUDI_SYNAPSE_ANSWER(synNoDeviceFound, ENODEV),
    GAUDI_SYNAPSE_ANSWER(synDeviceReset, EIO),
    GAUDI_SYNAPSE_ANSWER(synUnsupported, EOPNOTSUPP),
    GAUDI_SYNAPSE_ANSWER(synBusy, EBUSY),
    GAUDI_SYNAPSE_ANSWER(synAllResourcesTaken, EAGAIN),
    GAUDI_SYNAPSE_ANSWER(synUnavailable, EAGAIN),
    GAUDI_SYNAPSE_ANSWER(synFail, EIO),
    GAUDI_SYNAPSE_ANSWER(synOutOfResources, EAGAIN),
    GAUDI_SYNAPSE_ANSWER(synUninitialized, ENODEV),
    GAUDI_SYNAPSE_ANSWER(synSynapseTerminated, ENODEV),
    GAUDI_SYNAPSE_ANSWER(synInvalidEventHandle, EINVAL),
    GAUDI_SYNAPSE_ANSWER(synMappingNotFound, EFAULT),
    GAUDI_SYNAPSE_ANSWER(synTimeout, ETIMEDOUT),
};
#undef GAUDI_SYNAPSE_ANSWER

} // namespace

tl::unexpected<Error> failure(Status status, const char *call, const std::string &args) {
    for (const Answer &answer : kAnswers)
        if (answer.status == status)
            return tl::unexpected(
                thunk::make_error(answer.code, call, args, os::format("SynapseAI returned {}", answer.name)));
    return tl::unexpected(
        thunk::make_error(EIO, call, args, os::format("SynapseAI returned {}", static_cast<std::uint32_t>(status))));
}

Result<void> outcome(Status status, const char *call, const std::string &args) {
    if (status != synSuccess)
        return failure(status, call, args);
    return {};
}

} // namespace gaudi::vendor
