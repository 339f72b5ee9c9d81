// SPDX-License-Identifier: BSD-3-Clause
#include "allocation.h"

#include "arena.h"
#include "framework_memory.h"
#include "os/format.h"

#include <cerrno>
#include <string_view>

namespace gaudi {
namespace {

/// In whole pages of the card.
std::uint64_t pages(const Card &card, std::uint64_t length) {
    return (length + card.page_size() - 1) / card.page_size() * card.page_size();
}

/// Whether the driver has no memory left. The arena's own refusals are about the request and its limit.
bool is_drivers_shortage(const Error &error) {
    return error.code == ENOMEM && std::string_view(error.call) != "allocate";
}

/// UCP looks once whether it may have fragments of a card, and ends the process when an allocation of fragments fails later.
Error error_uncertain(const Card &card) {
    return thunk::make_error(
        ENOMEM, "allocate", card.bus_id(),
        "SynapseAI holds the card and may need all of its memory: UCX stages messages in host memory instead");
}

Error error_framework_holds_all(const Card &card, const Error &refusal) {
    return thunk::make_error(
        ENOMEM, "allocate", card.bus_id(),
        os::format(
            "card {} is shared with a framework that holds its memory, and this process has no synDeviceMalloc to "
            "allocate from it; let the framework allocate, and give that memory to UCX ({})",
            card.number(), refusal.text));
}

} // namespace

Result<std::uint64_t> allocate(Card &card, const AllocationRequest &request) {
    if (auto possible = check(card, request); !possible)
        return tl::unexpected(possible.error());
    if (!card.is_open() && pages(card, request.length) > request.limit)
        return tl::unexpected(error_exceeds(card, request.limit, 0));
    const auto session = card.open();
    if (!session)
        return tl::unexpected(session.error());
    if ((*session)->adopted())
        if (const Synapse *synapse = FrameworkMemory::find_allocator(card)) {
            if (request.tentative)
                return tl::unexpected(error_uncertain(card));
            auto allocated = (*session)->get<FrameworkMemory>().allocate(*synapse, request);
            if (!allocated)
                count_up((*session)->counters().failed_allocations);
            return allocated;
        }
    auto allocated = (*session)->get<Arena>().allocate(request);
    if (!allocated && (*session)->adopted() && is_drivers_shortage(allocated.error()))
        return tl::unexpected(error_framework_holds_all(card, allocated.error()));
    return allocated;
}

bool free_allocation(const Region &region, std::uint64_t address) {
    if (FrameworkMemory *memory = region.session().find<FrameworkMemory>(); memory && memory->free(address))
        return true;
    Arena *arena = region.session().find<Arena>();
    return arena && arena->free(address);
}

} // namespace gaudi
