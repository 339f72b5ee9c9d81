// SPDX-License-Identifier: BSD-3-Clause
#include "collect.h"
#include "os/format.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <array>
#include <sstream>

namespace gaudi::cli::doctor {
namespace {

constexpr std::array kOptions = {"CONFIG_PCI_P2PDMA", "CONFIG_DMABUF_MOVE_NOTIFY"};

std::map<std::string, std::string> read_options(const Machine &machine) {
    std::map<std::string, std::string> found;
    for (const std::string &place :
         {"/boot/config-" + machine.kernel_release, "/lib/modules/" + machine.kernel_release + "/config"}) {
        const auto text = machine.read(place);
        if (!text)
            continue;
        for (const char *option : kOptions)
            found.emplace(option, "n"); // where no line gives it a value
        std::istringstream lines(*text);
        for (std::string line; std::getline(lines, line);) {
            const std::size_t equals = line.find('=');
            if (equals != std::string::npos && found.contains(line.substr(0, equals)))
                found[line.substr(0, equals)] = line.substr(equals + 1);
        }
        break;
    }
    return found;
}

std::string read_iommu_parameters(const Machine &machine) {
    std::istringstream words(machine.read_line("/proc/cmdline"));
    std::string found;
    for (std::string word; words >> word;)
        if (word.find("iommu") != std::string::npos || word.find("acs") != std::string::npos)
            found += os::format("{}{}", found.empty() ? "" : " ", word);
    return found;
}

/// Nothing where the kernel does not show its symbols.
std::optional<bool> has_symbol(const Machine &machine, const std::string &name) {
    const auto symbols = machine.read("/proc/kallsyms");
    if (!symbols || symbols->empty())
        return {};
    for (const char end : {'\n', '\t'}) // the name of a module follows a tabulator
        if (symbols->find(os::format(" {}{}", name, end)) != std::string::npos)
            return true;
    return false;
}

std::string name_container(const Machine &machine) {
    if (machine.variable("KUBERNETES_SERVICE_HOST"))
        return "kubernetes";
    if (machine.exists("/.dockerenv"))
        return "docker";
    if (machine.exists("/run/.containerenv"))
        return "podman";
    return machine.variable("container").value_or("");
}

} // namespace

void collect_kernel(const Machine &machine, KernelFacts &kernel) {
    kernel.release = machine.kernel_release;
    kernel.has_umem_dmabuf = has_symbol(machine, "ib_umem_dmabuf_get");
    kernel.options = read_options(machine);
    kernel.iommu_parameters = read_iommu_parameters(machine);
}

void collect_process(const Machine &machine, ProcessFacts &process) {
    process.glibc = machine.glibc;
    process.user = machine.user;
    process.container = name_container(machine);
    constexpr const char *kInitial = "pid:[4026531836]"; // the kernel has that number in its source
    const std::string space = machine.read_link("/proc/self/ns/pid").string();
    process.initial_pid_namespace = space.empty() || space == kInitial;
    process.may_lock_memory = machine.may_lock_memory;
    process.locked_memory_bytes = machine.locked_memory_limit;
    process.open_files = machine.open_files_limit;
    struct statvfs space_of {};
    if (::statvfs(machine.at("/dev/shm").c_str(), &space_of) == 0) {
        process.shm_total_bytes = std::uint64_t{space_of.f_blocks} * space_of.f_frsize;
        process.shm_free_bytes = std::uint64_t{space_of.f_bavail} * space_of.f_frsize;
    }
    process.huge_pages = static_cast<std::uint64_t>(
        std::max<std::int64_t>(machine.read_number("/proc/sys/vm/nr_hugepages").value_or(0), 0));
    const std::string modes = machine.read_line("/sys/kernel/mm/transparent_hugepage/enabled");
    const std::size_t begin = modes.find('['), end = modes.find(']');
    if (begin != std::string::npos && end != std::string::npos && end > begin)
        process.transparent_huge_pages = modes.substr(begin + 1, end - begin - 1);
}

void collect_driver(const Machine &machine, DriverFacts &driver) {
    const std::filesystem::path module = "/sys/module/habanalabs";
    driver.loaded = machine.exists(module);
    if (!driver.loaded)
        return;
    driver.version = machine.read_line(module / "version");
    // The kernel marks modules that are not of its own sources with an O.
    const bool out_of_tree = machine.read_line(module / "taint").find('O') != std::string::npos;
    driver.kind = out_of_tree ? "production" : "mainline";
}

} // namespace gaudi::cli::doctor
