// SPDX-License-Identifier: BSD-3-Clause
#include "collect.h"

#include <algorithm>
#include <sstream>

namespace gaudi::cli::doctor {
namespace {

namespace fs = std::filesystem;

void read_maps(const Machine &machine, HolderFacts &holder) {
    const auto maps = machine.read("/proc/" + std::to_string(holder.pid) + "/maps");
    if (!maps)
        return;
    holder.libucs.emplace();
    std::istringstream lines(*maps);
    for (std::string line; std::getline(lines, line);) {
        const std::size_t slash = line.find('/');
        if (slash == std::string::npos)
            continue;
        const fs::path file = line.substr(slash);
        const std::string name = file.filename().string();
        if (name.find(".so") == std::string::npos)
            continue;
        if (name.starts_with("libucs.") || name.starts_with("libucs-")) { // wheels have a hash behind a -
            if (std::ranges::find(*holder.libucs, file.string()) == holder.libucs->end())
                holder.libucs->push_back(file.string());
        }
        holder.has_modules = holder.has_modules || name.starts_with("libuct_gaudi.");
    }
}

} // namespace

void collect_holder_ucx(const Machine &machine, std::vector<CardFacts> &cards) {
    for (CardFacts &card : cards)
        for (HolderFacts &holder : card.holders)
            read_maps(machine, holder);
}

} // namespace gaudi::cli::doctor
