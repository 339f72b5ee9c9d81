// SPDX-License-Identifier: BSD-3-Clause
// The kernel and the driver.
#include "check.h"
#include "os/format.h"

#include <array>
#include <cstdio>

namespace gaudi::cli::doctor {
namespace {

constexpr const char *kSoftware = "the cards are software (softgaudi)";

/// Whether a version "major.minor..." is at least this one.
bool is_at_least(const std::string &version, unsigned major, unsigned minor) {
    unsigned found_major = 0, found_minor = 0;
    return std::sscanf(version.c_str(), "%u.%u", &found_major, &found_minor) == 2 &&
           (found_major > major || (found_major == major && found_minor >= minor));
}

Outcome judge_kernel_version(const Facts &facts) {
    if (is_at_least(facts.kernel.release, 5, 12))
        return ok(os::format("kernel {}: NICs can register dma-bufs from 5.12 on", facts.kernel.release));
    return fail(
        os::format("kernel {} is older than 5.12: no NIC can register a dma-buf, all RDMA goes through host memory",
                   facts.kernel.release),
        "install a kernel of 5.12 or later");
}

Outcome judge_umem(const Facts &facts) {
    if (facts.thunk.software)
        return skip(os::format("{}, and softhca needs nothing of the kernel", kSoftware));
    if (facts.nics.empty())
        return skip("there is no RDMA device");
    if (!facts.kernel.has_umem_dmabuf)
        return skip("the kernel hides its symbols (/proc/kallsyms): needs root, or kernel.kptr_restrict=0");
    if (*facts.kernel.has_umem_dmabuf)
        return ok("the kernel's RDMA core has ib_umem_dmabuf_get");
    return fail("the kernel's RDMA core lacks ib_umem_dmabuf_get: NICs cannot register dma-bufs",
                "modprobe ib_uverbs, or install an RDMA stack that has it");
}

Outcome judge_p2p_options(const Facts &facts) {
    if (facts.thunk.software)
        return skip(os::format("{}: no PCIe peer-to-peer traffic", kSoftware));
    if (facts.kernel.options.empty())
        return skip("the configuration of the kernel is neither in /boot nor in /proc/config.gz as text");
    std::vector<std::string> missing;
    for (const char *name : {"CONFIG_PCI_P2PDMA", "CONFIG_DMABUF_MOVE_NOTIFY"}) {
        const auto found = facts.kernel.options.find(name);
        if (found == facts.kernel.options.end() || found->second != "y")
            missing.emplace_back(name);
    }
    if (missing.empty())
        return ok("the kernel has CONFIG_PCI_P2PDMA and CONFIG_DMABUF_MOVE_NOTIFY");
    return warn(
        os::format("the kernel lacks {}: the driver may refuse exports to other devices", os::join(missing, ", ")),
        "install a kernel that is configured with it");
}

Outcome judge_glibc(const Facts &facts) {
    if (is_at_least(facts.process.glibc, 2, 28))
        return ok(os::format("glibc {}", facts.process.glibc));
    return fail(os::format("glibc {} is older than 2.28: the packages do not load", facts.process.glibc),
                "build from source, or use a newer distribution");
}

Outcome judge_driver_loaded(const Facts &facts) {
    if (facts.thunk.software)
        return skip(kSoftware);
    if (facts.pci_cards.empty())
        return skip("PCI shows no Gaudi card (vendor 1da3)");
    std::vector<std::string> without;
    for (const PciCardFacts &card : facts.pci_cards)
        if (card.driver.empty())
            without.push_back(card.bus_id);
    if (!facts.driver.loaded)
        return fail(
            os::format("PCI shows {} Gaudi cards, and the driver habanalabs is not loaded", facts.pci_cards.size()),
            "modprobe habanalabs");
    if (!without.empty())
        return fail(os::format("the driver habanalabs has not taken {}", os::join(without, ", ")),
                    "dmesg | grep habanalabs");
    return ok(os::format("the driver habanalabs has all {} cards", facts.pci_cards.size()));
}

Outcome judge_driver_kind(const Facts &facts) {
    if (facts.thunk.software)
        return skip(kSoftware);
    if (!facts.driver.loaded)
        return skip("the driver habanalabs is not loaded");
    const std::string version = facts.driver.version.empty() ? "without a version" : facts.driver.version;
    if (facts.driver.kind == "mainline")
        return ok(
            os::format("driver habanalabs {}, of the kernel (mainline): no Gaudi3, no import of dma-bufs", version));
    return ok(os::format("driver habanalabs {}, the vendor's (production)", version));
}

Outcome judge_node_owner(const Facts &facts) {
    if (facts.nodes.empty())
        return skip("there is no /dev/accel");
    std::vector<std::string> foreign;
    for (const NodeFacts &node : facts.nodes)
        if (!node.driver.empty() && node.driver != "habanalabs")
            foreign.push_back(os::format("{} is of the driver {}", node.path, node.driver));
    if (foreign.empty())
        return ok(os::format("{} accel nodes, all of habanalabs", facts.nodes.size()));
    return warn(os::format("{}: numbers of nodes are not numbers of Gaudi cards", os::join(foreign, ", ")),
                "choose cards by module id, as in UCX_GAUDI_COPY_DEVICE");
}

Outcome judge_node_permission(const Facts &facts) {
    std::vector<std::string> closed;
    std::size_t own = 0;
    for (const NodeFacts &node : facts.nodes) {
        if (!node.driver.empty() && node.driver != "habanalabs")
            continue;
        ++own;
        if (!node.accessible)
            closed.push_back(node.path);
    }
    if (own == 0)
        return skip("there is no node of a Gaudi card");
    if (closed.empty())
        return ok("this user may open all nodes of the cards");
    return fail(os::format("this user may not open {}", os::join(closed, ", ")),
                os::format("ls -l {}; add the user to the group of the node", closed.front()));
}

Outcome judge_container_nodes(const Facts &facts) {
    if (facts.process.container.empty())
        return skip("this is no container");
    if (facts.thunk.software)
        return skip(kSoftware);
    if (facts.pci_cards.empty() || !facts.nodes.empty())
        return ok(os::format("container ({}): it has the nodes of the cards", facts.process.container));
    return fail(os::format("container ({}) without /dev/accel, on a machine with {} Gaudi cards",
                           facts.process.container, facts.pci_cards.size()),
                "start it with the device nodes: docker run --device /dev/accel ..., or the resource habana.ai/gaudi");
}

Outcome judge_pid_namespace(const Facts &facts) {
    if (facts.process.initial_pid_namespace)
        return ok("the pid namespace is the machine's");
    for (const CardFacts &card : facts.cards)
        if (card.in_use && card.holders.empty())
            return warn(os::format("card {} is held by a process outside of this pid namespace", card.module_id),
                        "run ucx_gaudi info outside of the container, or start it with --pid=host");
    return ok("a pid namespace of its own: processes outside of it, and their keys, are not in reach");
}

constexpr std::array kChecks = {
    Check{"GD001", "kernel version", judge_kernel_version},
    Check{"GD002", "dma-bufs in the kernel's RDMA core", judge_umem},
    Check{"GD003", "peer-to-peer options of the kernel", judge_p2p_options},
    Check{"GD004", "glibc version", judge_glibc},
    Check{"GD010", "driver of the cards", judge_driver_loaded},
    Check{"GD011", "kind and version of the driver", judge_driver_kind},
    Check{"GD012", "owners of the accel nodes", judge_node_owner},
    Check{"GD013", "permissions of the nodes", judge_node_permission},
    Check{"GD014", "nodes in the container", judge_container_nodes},
    Check{"GD015", "pid namespace", judge_pid_namespace},
};

} // namespace

std::span<const Check> kernel_checks() { return kChecks; }

} // namespace gaudi::cli::doctor
