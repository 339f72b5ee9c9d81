// SPDX-License-Identifier: BSD-3-Clause
#include "gaudi/memory/importers.h"
#include "os/format.h"
#include "steps.h"

#include <sys/utsname.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

namespace gaudi::cli::verify {
namespace {

namespace fs = std::filesystem;
constexpr const char *kStep = "machine";

std::string first_line(const fs::path &path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    return line;
}

/// The length of the BAR that the card's memory is seen through; 0 where sysfs does not show it.
std::uint64_t read_bar(const std::string &bus_id) {
    constexpr int kMemoryBar = 4;
    std::ifstream file("/sys/bus/pci/devices/" + bus_id + "/resource");
    std::string line;
    for (int i = 0; i <= kMemoryBar; ++i)
        if (!std::getline(file, line))
            return 0;
    unsigned long long begin = 0, end = 0;
    return std::sscanf(line.c_str(), "%llx %llx", &begin, &end) == 2 && end > begin ? end - begin + 1 : 0;
}

std::string read_iommu(const std::string &bus_id) {
    std::string type = first_line("/sys/bus/pci/devices/" + bus_id + "/iommu_group/type");
    if (!type.empty())
        return type;
    std::error_code error;
    const bool any = fs::directory_iterator("/sys/class/iommu", error) != fs::directory_iterator() && !error;
    return any ? "on, and sysfs does not show the group of the card" : "off";
}

/// Bridges between the root and the card whose ACS redirects peer-to-peer requests; sysfs shows no more than the wish.
std::string read_acs() {
    const std::string command_line = first_line("/proc/cmdline");
    const std::size_t at = command_line.find("pcie_acs_override");
    return at == std::string::npos ? "as the firmware has set it (lspci -vvv as root shows ACSCtl)"
                                   : command_line.substr(at, command_line.find(' ', at) - at);
}

bool has_symbol(const std::string &name) {
    std::ifstream file("/proc/kallsyms");
    for (std::string line; std::getline(file, line);)
        if (line.find(' ' + name) != std::string::npos)
            return true;
    return false;
}

} // namespace

void check_machine(Findings &findings, const Card &card, const std::string &ucx) {
    utsname kernel{};
    ::uname(&kernel);
    findings.note("kernel", kernel.release);
    findings.note("model", card.versions().model);
    findings.note("driver", card.versions().driver);
    findings.note("firmware", card.versions().firmware);
    findings.note("UCX", ucx.empty() ? "none found" : ucx);
    const std::uint64_t bar = read_bar(card.bus_id());
    findings.note("memory",
                  os::format("{} MiB in pages of {} MiB", card.info().dram_size >> 20, card.page_size() >> 20));
    findings.note("BAR", bar == 0 ? "sysfs does not show it" : os::format("{} MiB", bar >> 20));
    findings.note("IOMMU", read_iommu(card.bus_id()));
    findings.note("ACS", read_acs());

    unsigned major = 0, minor = 0;
    std::sscanf(kernel.release, "%u.%u", &major, &minor);
    const bool new_enough = major > 5 || (major == 5 && minor >= 12);
    const bool has_rdma = fs::exists("/sys/module/ib_uverbs");
    const bool has_umem = has_symbol("ib_umem_dmabuf_get");
    findings.add({.step = kStep,
                  .ids = {"A32"},
                  .verdict = !new_enough ? Verdict::failed
                             : has_umem  ? Verdict::held
                             : has_rdma  ? Verdict::failed
                                         : Verdict::not_testable,
                  .did = "looked for a kernel of 5.12 or later with ib_umem_dmabuf_get",
                  .saw = os::format("kernel {}, ib_uverbs {}, ib_umem_dmabuf_get {}", kernel.release,
                                    has_rdma ? "loaded" : "not loaded",
                                    has_umem ? "in /proc/kallsyms" : "not in /proc/kallsyms")});
    // No test can show that nothing else writes; that the list is read right is shown where an importer is there.
    const bool importer = importer_may_exist();
    findings.add({.step = kStep,
                  .ids = {"A23"},
                  .verdict = Verdict::not_testable,
                  .did = "looked for devices that write to a card's memory: ib_core, nvidia, render nodes",
                  .saw = importer ? "there may be one: copies from exported memory flush first"
                                  : "there is none: copies do not flush first"});
    findings.add({.step = kStep,
                  .ids = {"A33"},
                  .verdict = Verdict::not_testable,
                  .did = "read the settings of IOMMU and ACS",
                  .saw = os::format("IOMMU: {}; ACS: {}; the step nic shows whether transfers arrive",
                                    read_iommu(card.bus_id()), read_acs())});
}

} // namespace gaudi::cli::verify
