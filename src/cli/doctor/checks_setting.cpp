// SPDX-License-Identifier: BSD-3-Clause
// Settings that shut the modules out or slow them down, wherever UCX reads them.
#include "check.h"
#include "nic_reasons.h"
#include "os/format.h"
#include "ucx_list.h"

#include <algorithm>
#include <array>

namespace gaudi::cli::doctor {
namespace {

std::string text_of(const SettingFacts &setting) {
    return os::format("{}={} ({})", setting.name, setting.value, setting.source);
}

/// What removes a setting where it is.
std::string removal_of(const SettingFacts &setting) {
    return setting.source == "environment" ? os::format("unset {}", setting.name)
                                           : os::format("remove {} from {}", setting.name, setting.source);
}

bool is_off(const std::string &value) {
    constexpr std::array kOff = {"n", "no", "off", "0", "N", "NO", "No", "OFF"};
    return std::ranges::find(kOff, value) != kOff.end();
}

Outcome judge_tls(const Facts &facts) {
    const SettingFacts *tls = facts.setting("UCX_TLS");
    if (!tls)
        return ok("UCX_TLS is not set: UCX uses every transport");
    const UcxList list(tls->value);
    if (!list.selects({"gaudi_cpy", "gaudi_gdr", "gaudi"}))
        return fail(os::format("{} leaves gaudi_cpy out: UCX cannot copy card memory", text_of(*tls)),
                    list.excludes() ? removal_of(*tls) : os::format("export UCX_TLS={},gaudi_cpy", tls->value));
    if (!facts.nics.empty() && !list.selects({"ib", "rc", "rc_v", "rc_x", "rc_verbs", "rc_mlx5", "dc", "dc_x",
                                              "dc_mlx5", "ud", "ud_v", "ud_x", "ud_verbs", "ud_mlx5", "srd"}))
        return warn(os::format("{} leaves out the transports of RDMA: nothing goes without a copy", text_of(*tls)),
                    os::format("export UCX_TLS={},rc", tls->value));
    return ok(os::format("{} has gaudi_cpy", text_of(*tls)));
}

Outcome judge_net_devices(const Facts &facts) {
    const SettingFacts *devices = facts.setting("UCX_NET_DEVICES");
    if (!devices)
        return ok("UCX_NET_DEVICES is not set: UCX uses every NIC");
    const bool reaches =
        std::ranges::any_of(facts.nics, [&](const NicFacts &nic) { return is_selected(nic, devices->value); });
    if (facts.nics.empty() || reaches)
        return ok(text_of(*devices));
    return warn(os::format("{} leaves no RDMA device of this machine: nothing goes without a copy", text_of(*devices)),
                os::format("export UCX_NET_DEVICES={}:1", facts.nics.front().name));
}

Outcome judge_acc_devices(const Facts &facts) {
    const SettingFacts *devices = facts.setting("UCX_ACC_DEVICES");
    if (!devices || UcxList(devices->value).selects({"gaudi"}))
        return ok("the device gaudi is not excluded");
    return fail(os::format("{} leaves the device gaudi out: UCX cannot copy card memory", text_of(*devices)),
                removal_of(*devices));
}

Outcome judge_module_list(const Facts &facts) {
    const SettingFacts *modules = facts.setting("UCX_MODULES");
    if (!modules || UcxList(modules->value).selects({"gaudi"}))
        return ok("UCX_MODULES does not leave the module gaudi out");
    return fail(os::format("{} leaves the module gaudi out", text_of(*modules)), removal_of(*modules));
}

Outcome judge_memtype_cache(const Facts &facts) {
    const SettingFacts *cache = facts.setting("UCX_MEMTYPE_CACHE");
    if (!cache || !is_off(cache->value))
        return ok("the memory-type cache is on");
    return warn(os::format("{}: UCX asks every memory domain about every buffer, which costs each small message",
                           text_of(*cache)),
                os::format("{}, unless the program passes tensors of PyTorch by data_ptr()", removal_of(*cache)));
}

Outcome judge_direct_rdma(const Facts &facts) {
    for (const char *name : {"UCX_IB_GPU_DIRECT_RDMA", "UCX_GAUDI_COPY_DMABUF"})
        if (const SettingFacts *setting = facts.setting(name); setting && is_off(setting->value))
            return warn(os::format("{}: RDMA goes through host memory", text_of(*setting)), removal_of(*setting));
    return ok("no setting switches zero copy off");
}

Outcome judge_local_conf(const Facts &facts) {
    const auto local = std::ranges::find_if(
        facts.settings, [](const SettingFacts &setting) { return setting.source.starts_with("./"); });
    if (local == facts.settings.end())
        return ok("no ucx.conf of the working directory changes UCX");
    return warn(
        os::format("{} comes from the working directory: whoever writes there decides what UCX loads", text_of(*local)),
        "move the line to ~/ucx.conf, or remove it");
}

Outcome judge_rdma_variables(const Facts &facts) {
    const SettingFacts *scatter = facts.setting("MLX5_SCATTER_TO_CQE");
    const bool mlx5 = std::ranges::any_of(facts.nics, [](const NicFacts &nic) { return nic.name.starts_with("mlx5"); });
    if (!mlx5)
        return skip("there is no mlx5 device");
    std::vector<std::string> wanted;
    if (!facts.setting("RDMAV_FORK_SAFE"))
        wanted.emplace_back("RDMAV_FORK_SAFE=1");
    if (!scatter || scatter->value != "0")
        wanted.emplace_back("MLX5_SCATTER_TO_CQE=0");
    if (wanted.empty())
        return ok("RDMAV_FORK_SAFE and MLX5_SCATTER_TO_CQE are set as Gaudi's vendor asks for");
    return warn(os::format("Gaudi's vendor asks for {} with mlx5 devices", os::join(wanted, " and ")),
                os::format("export {}", os::join(wanted, " ")));
}

/// Settings that leave the modules in and make transfers slow.
Outcome judge_slow_settings(const Facts &facts) {
    struct Slow {
        const char *name;
        bool (*is_slow)(const std::string &value);
        const char *effect;
    };
    constexpr auto kInfinite = [](const std::string &value) { return value == "inf"; };
    constexpr std::array kSlow = {
        Slow{"UCX_RCACHE_ENABLE", is_off, "each transfer registers its memory anew"},
        Slow{"UCX_IB_PREFER_NEAREST_DEVICE", is_off, "UCX may choose a NIC that is far from the card"},
        Slow{"UCX_ZCOPY_THRESH", kInfinite, "messages are copied into buffers of the host"},
        Slow{"UCX_RNDV_THRESH", kInfinite, "messages are copied into buffers of the host"},
        Slow{"UCX_RNDV_SCHEME",
             [](const std::string &value) { return value == "am" || value == "get_ppln" || value == "put_ppln"; },
             "large messages go through the host in pieces"},
    };
    std::vector<std::string> found, removals;
    for (const Slow &slow : kSlow) {
        if (const SettingFacts *setting = facts.setting(slow.name); setting && slow.is_slow(setting->value)) {
            found.push_back(os::format("{}: {}", text_of(*setting), slow.effect));
            removals.push_back(removal_of(*setting));
        }
    }
    if (found.empty())
        return ok("no setting slows transfers down");
    return warn(os::join(found, "; "), os::join(removals, "; "));
}

/// UCX allocates fragments of size 0 for a memory type that UCX_RNDV_FRAG_SIZE does not name, and crashes.
Outcome judge_fragments(const Facts &facts) {
    const SettingFacts *types = facts.setting("UCX_RNDV_FRAG_MEM_TYPES");
    if (!types || types->value.find("gaudi") == std::string::npos)
        return ok("UCX_RNDV_FRAG_MEM_TYPES does not name gaudi");
    for (const char *name : {"UCX_RNDV_FRAG_SIZE", "UCX_RNDV_FRAG_ALLOC_COUNT"})
        if (const SettingFacts *sizes = facts.setting(name); !sizes || sizes->value.find("gaudi:") == std::string::npos)
            return fail(
                os::format("{} without gaudi in {}: UCX crashes at the first pipelined message", text_of(*types), name),
                "export UCX_RNDV_FRAG_SIZE=host:512K,gaudi:4M UCX_RNDV_FRAG_ALLOC_COUNT=host:128,gaudi:8");
    return ok(os::format("{}, with their size and number", text_of(*types)));
}

constexpr std::array kChecks = {
    Check{"GD050", "UCX_TLS", judge_tls},
    Check{"GD051", "UCX_NET_DEVICES", judge_net_devices},
    Check{"GD052", "UCX_ACC_DEVICES", judge_acc_devices},
    Check{"GD053", "UCX_MODULES", judge_module_list},
    Check{"GD054", "memory-type cache", judge_memtype_cache},
    Check{"GD055", "switches of zero copy", judge_direct_rdma},
    Check{"GD056", "ucx.conf of the working directory", judge_local_conf},
    Check{"GD057", "variables of mlx5", judge_rdma_variables},
    Check{"GD058", "settings that slow transfers down", judge_slow_settings},
    Check{"GD059", "UCX_RNDV_FRAG_MEM_TYPES", judge_fragments},
};

} // namespace

std::span<const Check> setting_checks() { return kChecks; }

} // namespace gaudi::cli::doctor
