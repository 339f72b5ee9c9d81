// SPDX-License-Identifier: BSD-3-Clause
#include "cause.h"

#include "cli/doctor/check.h"
#include "os/format.h"

#include <initializer_list>
#include <string_view>

namespace gaudi::cli::explain {
namespace {

using doctor::Facts;
using doctor::Verdict;

/// The first of these checks that is not fine. SKIP says that there is nothing to check and is no cause.
std::optional<Cause> first_of(std::initializer_list<std::string_view> ids, const std::vector<doctor::Result> &results) {
    for (const std::string_view id : ids)
        for (const auto &[check, outcome] : results)
            if (check->id == id && (outcome.verdict == Verdict::fail || outcome.verdict == Verdict::warn))
                return Cause{std::string(id), outcome.sentence, outcome.fix};
    return {};
}

std::optional<Cause> find_missing_module(const std::vector<doctor::Result> &results) {
    // Files first, then the settings that leave them out, then the library that they need.
    return first_of({"GD043", "GD044", "GD046", "GD045", "GD053", "GD050", "GD052", "GD020"}, results);
}

std::optional<Cause> find_missing_nic(const Evidence &evidence, const Facts &facts,
                                      const std::vector<doctor::Result> &results) {
    if (facts.nics.empty())
        return Cause{"GD060",
                     facts.why_no_verbs.empty()
                         ? "there is no RDMA NIC, and without one card memory goes through host memory"
                         : os::format("no RDMA NIC can be used: {}", facts.why_no_verbs),
                     facts.thunk.software ? "ucx_gaudi run --hca adds NICs in software"
                                          : "use a machine with an RDMA NIC that registers dma-bufs, and rdma-core"};
    if (!evidence.has_ib_module)
        return Cause{"", "this UCX has no ib module (libuct_ib), so it uses no RDMA NIC",
                     "use a UCX that has one, as that of the wheel nixl-cu12, and name it with --ucx"};
    return first_of({"GD060"}, results);
}

std::optional<Cause> find_refused_registration(const Evidence &evidence) {
    if (!evidence.refused_registration.empty())
        return Cause{"",
                     os::format("an RDMA NIC does not register the card's dma-buf: {}", evidence.refused_registration),
                     "see ucx_gaudi verify; UCX_GAUDI_COPY_DMABUF=n stages card memory through host memory"};
    return {};
}

std::optional<Cause> find_refused_export(const Evidence &evidence) {
    if (!evidence.refused_export.empty())
        return Cause{"", os::format("the card's memory is not exported: {}", evidence.refused_export),
                     "ucx_gaudi doctor --active, and ucx_gaudi verify, which tries each form of export"};
    return {};
}

Cause find_remote(const Transfer &transfer, const Evidence &evidence, const Facts &facts,
                  const std::vector<doctor::Result> &results) {
    if (auto cause = find_missing_nic(evidence, facts, results))
        return *cause;
    if (auto cause = find_refused_registration(evidence)) // UCX has met it: more than a check can know
        return *cause;
    if (auto cause = first_of({"GD061", "GD050", "GD051", "GD055"}, results))
        return *cause;
    if (auto cause = find_refused_export(evidence))
        return *cause;
    if (evidence.zero_copy_from)
        return Cause{"",
                     os::format("{} bytes are below the {} from which UCX goes without a copy here", transfer.bytes,
                                *evidence.zero_copy_from),
                     transfer.operation == Operation::tag
                         ? os::format("none is needed, UCX expects a copy to be faster; export UCX_RNDV_THRESH={} "
                                      "goes without it",
                                      transfer.bytes)
                         : "none is needed: UCX expects a copy to be faster"};
    if (auto cause = first_of({"GD021", "GD001", "GD002", "GD003"}, results))
        return *cause;
    return Cause{"", os::format("UCX has chosen '{}', and no check says why", evidence.protocol),
                 "ucx_gaudi doctor; UCX_LOG_LEVEL=debug shows the transports that UCX leaves out"};
}

Cause find_local(const Transfer &transfer, const Evidence &evidence) {
    if (transfer.from.card && transfer.to.card && evidence.bounced)
        return Cause{"", "the driver does not let one card write to another, so their copies go through host memory",
                     "none on this driver; between processes an RDMA NIC goes without a copy"};
    if (evidence.bounced)
        return Cause{"",
                     os::format("{} bytes are few: to map the host memory into the card would take longer than a copy",
                                transfer.bytes),
                     "none is needed; larger copies go without it"};
    return Cause{"", os::format("UCX has chosen '{}', which copies", evidence.protocol),
                 "use --op put or get in the program: within a process they copy by the card alone"};
}

} // namespace

Cause find_cause(const Transfer &transfer, const Evidence &evidence, const Facts &facts) {
    const std::vector<doctor::Result> results = doctor::judge(facts);
    if (!evidence.knows_gaudi) {
        if (auto cause = find_missing_module(results))
            return *cause;
        return {"", "UCX has loaded no module of ucx-gaudi that it can use", "ucx_gaudi doctor"};
    }
    return transfer.is_between_processes() ? find_remote(transfer, evidence, facts, results)
                                           : find_local(transfer, evidence);
}

} // namespace gaudi::cli::explain
