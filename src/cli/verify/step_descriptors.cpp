// SPDX-License-Identifier: BSD-3-Clause
#include "os/format.h"
#include "steps.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>

namespace gaudi::cli::verify {
namespace {

constexpr const char *kStep = "descriptors";

} // namespace

void check_descriptors(Findings &findings, const Card &card, const thunk::Device &device) {
    struct Other {
        const char *name;
        thunk::Fd fd;
    };
    Other others[] = {{"a device", thunk::Fd(::open("/dev/null", O_RDWR | O_CLOEXEC))},
                      {"a file", thunk::Fd(::memfd_create("verify", MFD_CLOEXEC))},
                      {"a socket", thunk::Fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0))}};
    const auto own = card.node().accepts(device.fd(), card.bus_id());
    bool held = own && *own;
    std::string saw = os::format("the card's own: {}", held ? "accepted" : own ? "refused" : own.error().text);
    std::string claims;
    for (const Other &other : others) {
        const auto accepted = card.node().accepts(other.fd.get(), card.bus_id());
        held = held && accepted && !*accepted;
        saw += os::format("; {}: {}", other.name, accepted && !*accepted ? "refused" : "accepted");
        // What the library says of it matters to programs that ask it first; this one does not.
        if (const auto named = thunk::Device(card.library(), other.fd.get()).bus_id())
            claims += os::format("; libhl-thunk calls {} the card {}", other.name, *named);
    }
    findings.measure({kStep, "others_are_named_cards", !claims.empty()});
    findings.add({.step = kStep,
                  .ids = {"A24"},
                  .verdict = verdict_of(held),
                  .did = "recognised the card's descriptor, and a device, a file and a socket that are none",
                  .saw = saw + claims});
}

} // namespace gaudi::cli::verify
