// SPDX-License-Identifier: BSD-3-Clause
#include "facts.h"

#include "os/format.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

namespace nlohmann {

/// A value that is not known is null.
template <class T>
struct adl_serializer<std::optional<T>> {
    static void to_json(json &out, const std::optional<T> &value) { out = value ? json(*value) : json(nullptr); }
    static void from_json(const json &in, std::optional<T> &value) {
        value = in.is_null() ? std::nullopt : std::optional<T>(in.get<T>());
    }
};

} // namespace nlohmann

namespace gaudi::cli::doctor {

// A key that a file lacks keeps its default, so that a newer ucx_gaudi reads the files of an older one.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(KernelFacts, release, has_umem_dmabuf, options, iommu_parameters)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(ProcessFacts, glibc, user, container, initial_pid_namespace,
                                                may_lock_memory, locked_memory_bytes, open_files, shm_total_bytes,
                                                shm_free_bytes, huge_pages, transparent_huge_pages)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(DriverFacts, loaded, version, kind)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(NodeFacts, path, driver, bus_id, accessible)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(BridgeFacts, bus_id, acs_control, why_unknown)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(PciCardFacts, bus_id, device_id, driver, numa_node, bar_bytes, iommu,
                                                bridges)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(ThunkFacts, path, version, software, missing, why_not, copies)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(HolderFacts, pid, command, libucs, has_modules)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(CardFacts, number, module_id, bus_id, model, card_name, state,
                                                memory_bytes, memory_free_bytes, hard_resets, firmware, in_use, holders,
                                                takes_submissions, completion_by_flag, completion_reason,
                                                completion_record)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(ModuleFileFacts, path, why_skipped)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(UcxFacts, source, libucs, version, why_unusable, files, load_error,
                                                plugin_path, plugin_path_source)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(SettingFacts, name, value, source)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(NicFacts, name, bus_id, numa_node, active, dmabuf_errno, why_unprobed,
                                                bridges, acs, sysfs_path, rate_gbit_per_s)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(NumaNodeFacts, node, cpus)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(PciDeviceFacts, bus_id, cpus, link_mt_per_s, link_lanes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(DistanceFacts, card, nic, latency_ns, bandwidth_bytes_per_s)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(UcxViewFacts, source, version, why_unknown, has_ib, settings, distances)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(TopologyFacts, numa_nodes, devices, ucx)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(RoundTripFacts, card, nic, good, sentence)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Facts, schema, version, kernel, process, driver, nodes, pci_cards,
                                                thunk, cards, why_no_card, mapping_table_error, module_directory,
                                                module_files, missing_modules, ucx, settings, nics, why_no_verbs,
                                                topology, round_trips)

namespace {

/// What a file has more of than any machine; empty if nothing. Readers go through switches and pairs of devices, so a
/// forged file would take all of the stack or the memory.
std::string find_excess(const Facts &facts) {
    constexpr std::size_t kMostDevices = 1024, kMostBridges = 64;
    const std::pair<const char *, std::size_t> counts[] = {
        {"cards", facts.cards.size()}, {"pci_cards", facts.pci_cards.size()}, {"nics", facts.nics.size()}};
    for (const auto &[key, count] : counts)
        if (count > kMostDevices)
            return os::format("its key '{}' has {} entries, more than {}", key, count, kMostDevices);
    std::size_t bridges = 0; // above one device
    for (const PciCardFacts &card : facts.pci_cards)
        bridges = std::max(bridges, card.bridges.size());
    for (const NicFacts &nic : facts.nics)
        bridges = std::max(bridges, nic.bridges.size());
    if (bridges > kMostBridges)
        return os::format("a device has {} bridges above it, more than {}", bridges, kMostBridges);
    return {};
}

} // namespace

const SettingFacts *Facts::setting(const std::string &name) const {
    const auto found = std::ranges::find(settings, name, &SettingFacts::name);
    return found == settings.end() ? nullptr : &*found;
}

std::string describe_holders(const CardFacts &card) {
    if (card.holders.empty())
        return "another process";
    std::vector<std::string> all;
    for (const HolderFacts &holder : card.holders)
        all.push_back(os::format("pid {} ({})", holder.pid, holder.command));
    return os::join(all, ", ");
}

std::string write_facts(const Facts &facts) {
    // Invalid UTF-8 is replaced: the name of a process or a file may hold any bytes.
    return nlohmann::json(facts).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

OrSentence<Facts> read_facts(const std::string &json, const std::string &name) {
    constexpr std::uint64_t kSchema = 1;
    const auto refuse = [&](const std::string &why) {
        return Sentence(os::format("{} is no file of ucx_gaudi dump: {}", name, why));
    };
    nlohmann::json tree;
    try {
        tree = nlohmann::json::parse(json);
    } catch (const nlohmann::json::parse_error &error) {
        return refuse(json.empty()                ? "it is empty"
                      : error.byte >= json.size() ? os::format("it ends too early, at byte {}", json.size())
                                                  : os::format("its byte {} is not JSON", error.byte));
    } catch (const nlohmann::json::exception &) { // a number that is out of range
        return refuse("it is not JSON");
    }
    if (!tree.is_object())
        return refuse("it is no JSON object");
    // Reports of info and doctor have a schema too, and not the facts.
    for (const char *key : {"schema", "kernel", "process", "thunk", "cards", "ucx", "nics"})
        if (!tree.contains(key))
            return refuse(os::format("it has no key '{}'", key));
    if (tree["schema"] != kSchema)
        return Sentence(
            os::format("{} has schema {}, and this ucx_gaudi reads {}", name, tree["schema"].dump(), kSchema));
    for (const auto &[key, value] : tree.items()) { // one by one, to name the wrong one
        try {
            static_cast<void>(nlohmann::json{{key, value}}.get<Facts>());
        } catch (const nlohmann::json::exception &) {
            return refuse(os::format("its key '{}' has a value of another type", key));
        }
    }
    auto facts = tree.get<Facts>();
    if (const std::string excess = find_excess(facts); !excess.empty())
        return refuse(excess);
    return facts;
}

} // namespace gaudi::cli::doctor
