// SPDX-License-Identifier: BSD-3-Clause
#include "allocation_request.h"

#include "gaudi/card/settings.h"
#include "os/format.h"

#include <cerrno>

namespace gaudi {
namespace {

tl::unexpected<Error> refuse(int code, const Card &card, const std::string &reason) {
    return tl::unexpected(thunk::make_error(code, "allocate", card.bus_id(), reason));
}

} // namespace

Result<void> check(const Card &card, const AllocationRequest &request) {
    if (request.length == 0)
        return refuse(EINVAL, card, "cannot allocate 0 bytes");
    if ((request.alignment & (request.alignment - 1)) != 0)
        return refuse(EINVAL, card, os::format("alignment {} is not a power of two", request.alignment));
    const std::uint64_t all = card.info().dram_size;
    if (request.length > all || request.alignment > all)
        return refuse(ENOMEM, card,
                      os::format("{} bytes with alignment {} are more than the {} MiB that the card has",
                                 request.length, request.alignment, all >> 20));
    return {};
}

Error error_exceeds(const Card &card, std::uint64_t limit, std::uint64_t held) {
    return thunk::make_error(
        ENOMEM, "allocate", "",
        os::format("UCX may hold {} MiB of card {} ({}) and holds {} MiB; free memory or raise the limit", limit >> 20,
                   card.bus_id(), settings().max_memory.name, held >> 20));
}

} // namespace gaudi
