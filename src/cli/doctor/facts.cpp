// SPDX-License-Identifier: BSD-3-Clause
#include "facts.h"

#include "os/format.h"

#include <nlohmann/json.hpp>

#include <algorithm>

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
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(HolderFacts, pid, command)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(CardFacts, number, module_id, bus_id, model, card_name, state,
                                                memory_bytes, memory_free_bytes, hard_resets, firmware, in_use, holders,
                                                takes_submissions, completion_by_flag, completion_reason)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(ModuleFileFacts, path, why_skipped)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(UcxFacts, source, libucs, version, why_unusable, files, load_error)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(SettingFacts, name, value, source)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(NicFacts, name, bus_id, numa_node, active, dmabuf_errno, why_unprobed,
                                                bridges)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(RoundTripFacts, card, nic, good, sentence)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Facts, schema, version, kernel, process, driver, nodes, pci_cards,
                                                thunk, cards, why_no_card, mapping_table_error, module_directory,
                                                missing_modules, ucx, settings, nics, why_no_verbs, round_trips)

const SettingFacts *Facts::setting(const std::string &name) const {
    const auto found = std::ranges::find(settings, name, &SettingFacts::name);
    return found == settings.end() ? nullptr : &*found;
}

std::string write_facts(const Facts &facts) {
    // Invalid UTF-8 is replaced: the name of a process or a file may hold any bytes.
    return nlohmann::json(facts).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

OrSentence<Facts> read_facts(const std::string &json, const std::string &name) {
    constexpr std::uint64_t kSchema = 1;
    try {
        const auto tree = nlohmann::json::parse(json);
        if (!tree.is_object() || !tree.contains("schema"))
            return Sentence(os::format("{} is no file of ucx_gaudi dump: it has no key 'schema'", name));
        if (tree["schema"] != kSchema)
            return Sentence(
                os::format("{} has schema {}, and this ucx_gaudi reads {}", name, tree["schema"].dump(), kSchema));
        return tree.get<Facts>();
    } catch (const nlohmann::json::exception &error) {
        return Sentence(os::format("{} is no file of ucx_gaudi dump: {}", name, error.what()));
    }
}

} // namespace gaudi::cli::doctor
